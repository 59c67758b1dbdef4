"""Puts of many callers share calls."""

import asyncio
import threading
from functools import partial

import pytest
import redis
import redis.asyncio
from deployment import Deployment

from delayq import AsyncClient, Client, Incomplete, Message, ScriptError

PUTS = 500


@pytest.fixture
def deployment(connection):
    deployment = Deployment(connection, shards=4)
    connection.config_resetstat()
    return deployment


def calls_of(connection):
    """Returns the number of script calls."""
    stats = connection.info("commandstats")
    return sum(stats.get(f"cmdstat_{how}", {"calls": 0})["calls"] for how in ("evalsha", "eval"))


def own_connections(connection):
    return [client for client in connection.client_list() if client["name"] == "gathering"]


def test_500_gathered_puts_go_together_over_one_connection(deployment, redis_socket):
    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket, client_name="gathering", max_connections=1) as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            puts = await asyncio.gather(*(client.put(Message("orders", b"x", id=f"order-{n}")) for n in range(PUTS)))
            assert [put.id for put in puts] == [f"order-{n}" for n in range(PUTS)]
            assert {put.word for put in puts} == {"ready"}
            assert len(own_connections(deployment.redis)) == 1

    asyncio.run(run())
    assert calls_of(deployment.redis) <= PUTS / 4


def test_puts_of_many_threads_go_together_over_one_connection(deployment, redis_socket):
    puts = []
    with redis.Redis(unix_socket_path=redis_socket, client_name="gathering", max_connections=1) as own:
        with Client(own, deployment.namespace) as client:
            client.put(Message("orders", b"x"))
            put = partial(client.put, Message("orders", b"x"))
            threads = [threading.Thread(target=lambda: puts.append(put())) for _ in range(100)]
            deployment.redis.client_pause(500)  # the first one waits, and the others for it
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(own_connections(deployment.redis)) == 1
    assert len({put.id for put in puts}) == 100 and all(put.accepted for put in puts)
    assert calls_of(deployment.redis) <= 20


def test_a_caller_that_is_cancelled_takes_no_answer_away_from_the_others(deployment, redis_socket):
    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket) as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            tasks = [asyncio.create_task(client.put(Message("orders", b"x"))) for _ in range(100)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            assert all(put.accepted for put in await asyncio.gather(*tasks[1::2]))

    asyncio.run(run())


def test_a_shard_that_refuses_one_callers_put_takes_no_answer_away_from_another(deployment):
    deployment.redis.set(f"{{{deployment.namespace}:1}}:t:1", "x")
    answers = {}

    async def run():
        path = deployment.redis.connection_pool.connection_kwargs["path"]
        async with redis.asyncio.Redis(unix_socket_path=path) as own, AsyncClient(own, deployment.namespace) as client:
            puts = (client.put(Message("orders", b"x", id=f"order-{n}")) for n in range(40))
            for n, answer in enumerate(await asyncio.gather(*puts, return_exceptions=True)):
                answers[n] = answer

    asyncio.run(run())
    refused = [answer for answer in answers.values() if isinstance(answer, ScriptError)]
    assert refused and len(refused) < 40 and {answer.code for answer in refused} == {"WRONGTYPE"}
    assert all(answer.accepted for answer in answers.values() if not isinstance(answer, ScriptError))
    with Client(deployment.redis, deployment.namespace) as client, pytest.raises(Incomplete) as some:
        client.put_many([Message("orders", b"x", id=f"again-{n}") for n in range(40)])
    assert {"unanswered", "ready"} == {outcome.word for outcome in some.value.outcomes}
