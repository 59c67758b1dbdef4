<?php
// Calls every method of lmstfy's PHP client, which has no tests of its own, and checks the answers.

error_reporting(E_ALL & ~E_DEPRECATED & ~E_WARNING);
require 'src/Client.php';

function same($wanted, $got, $what)
{
    if ($wanted !== $got) {
        fwrite(STDERR, "$what: " . var_export($got, true) . ' instead of ' . var_export($wanted, true) . "\n");
        exit(1);
    }
}

$address = getenv('LMSTFY_HOST') . ':' . getenv('LMSTFY_PORT');
$client = new Lmstfy\Client($address, 'ns', getenv('LMSTFY_TOKEN'));

$id = $client->Publish('php', 'bar', 0, 10, 0);
same(1, $client->QueueSize('php'), 'the size');
same('bar', $client->GetJob('php', $id)['data'], 'the job by its id');
same($id, $client->PeekQueue('php')['job_id'], 'the head of the queue');
$job = $client->Consume('php', 5, 3);
same([$id, 'bar', 9], [$job['job_id'], $job['data'], $job['remain_tries']], 'the consumed job');
same(true, $client->Ack('php', $id), 'the acknowledgement');
same(null, $client->Consume('php', 5, 0), 'an empty queue');

// The client names its parameters `Array` here.
$second = $client->Publish('php-2', ['kind' => 'form'], 60, 1, 0);
$job = $client->ConsumeMultiQueues(5, 0, 'php-1', 'php-2');
same([$second, 'kind=form'], [$job['job_id'], $job['data']], 'the job of the second queue');
$client->Ack('php-2', $second);

$dead = $client->Publish('php-dead', 'late', 0, 1, 0);
$client->Consume('php-dead', 1, 3);
for ($tries = 0; $client->PeekDeadLetter('php-dead')['deadletter_size'] === 0 && $tries < 100; $tries++) {
    usleep(100000);
}
same($dead, $client->PeekDeadLetter('php-dead')['deadletter_head'], 'the dead letter');
same(1, $client->RespawnDeadLetter('php-dead', 1, 60), 'the respawned');
same('late', $client->Consume('php-dead', 5, 3)['data'], 'the respawned job');
$client->Close();
