"""Batching without a Redis: who leads, who is answered, and in what order, whatever happens to a caller."""

import asyncio
import random
import threading

import pytest

from delayq.gathering import Gathering
from delayq.items import Item
from delayq.runtime import Loop, Threads, drive


def item(verb, name):
    return Item(verb, name.encode(), ("orders",), (name.encode(),), name)


def test_each_of_thousands_of_threads_gets_its_own_answer_once():
    flights, joined = [], []

    async def carry_out(items):
        flights.append([one.id for one in items])
        return [one.id for one in items]

    gathering = Gathering(carry_out, Threads())

    def put(n):
        for turn in range(3):
            (answer,) = drive(gathering.join([item("put", f"{n}-{turn}")]))
            joined.append(answer == f"{n}-{turn}")

    threads = [threading.Thread(target=put, args=(n,)) for n in range(2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert joined == [True] * 6000
    sent = [id for flight in flights for id in flight]
    assert len(sent) == len(set(sent)) == 6000


def test_items_of_one_message_never_share_a_flight_and_keep_their_order():
    flights = []

    async def carry_out(items):
        await asyncio.sleep(0)
        flights.append([(one.verb, one.id) for one in items])
        return [one.verb for one in items]

    async def run():
        gathering = Gathering(carry_out, Loop())
        verbs = ["put", "cancel", "peek", "peek", "put"]
        answers = await asyncio.gather(*(gathering.join([item(verb, "a")]) for verb in verbs), gathering.join([item("put", "b")]))
        assert answers == [[verb] for verb in [*verbs, "put"]]

    asyncio.run(run())
    same = [[verb for verb, id in flight if id == "a"] for flight in flights]
    assert same == [["put"], ["cancel"], ["peek", "peek"], ["put"]]


@pytest.mark.parametrize("seed", range(20))
def test_callers_cancelled_at_any_moment_leave_the_others_an_answer_and_lose_no_settle(seed):
    chance, sent = random.Random(seed), []

    async def carry_out(items):
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        sent.extend(one.id for one in items)
        return [one.id for one in items]

    async def run():
        gathering = Gathering(carry_out, Loop())
        tasks, begun, cancelled = {}, [], set()

        async def join(id, verb):
            begun.append(id)
            return await gathering.join([item(verb, id)])

        for n in range(300):
            verb = chance.choice(["put", "ack"])
            tasks[f"{verb}-{n}"] = asyncio.create_task(join(f"{verb}-{n}", verb))
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            id = chance.choice(begun or [None])
            if id and chance.random() < 0.5 and not tasks[id].done():
                tasks[id].cancel()
                cancelled.add(id)
        results = await asyncio.wait_for(asyncio.gather(*tasks.values(), return_exceptions=True), 10)
        await asyncio.wait_for(gathering.join([item("put", "last")]), 10)
        for id, result in zip(tasks, results, strict=True):
            assert result == [id] or id in cancelled and isinstance(result, asyncio.CancelledError)
            assert id in sent or id.startswith("put") and id in cancelled
        assert len(sent) == len(set(sent)) and gathering._leader is None

    asyncio.run(run())


def test_a_settle_is_sent_although_its_caller_is_cancelled_when_it_is_named_the_leader():
    sent = []

    async def carry_out(items):
        await asyncio.sleep(0)
        sent.extend(one.id for one in items)
        return [one.id for one in items]

    async def run():
        gathering = Gathering(carry_out, Loop())
        first = asyncio.create_task(gathering.join([item("put", "a")]))
        while gathering._waiting or gathering._leader is None:
            await asyncio.sleep(0)
        second = asyncio.create_task(gathering.join([item("ack", "b")]))
        while gathering._leader is None or gathering._leader.items[0].id != "b":
            await asyncio.sleep(0)
        second.cancel()
        assert await first == ["a"]
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(run())
    assert sent == ["a", "b"]


def test_an_interrupted_leader_answers_its_flight_and_names_another_leader():
    is_flying, goes_on = threading.Event(), threading.Event()

    async def carry_out(items):
        if items[0].id == "a":
            is_flying.set()
            goes_on.wait()
            raise KeyboardInterrupt
        return [one.id for one in items]

    gathering, answers = Gathering(carry_out, Threads()), {}

    def put(id):
        try:
            answers[id] = drive(gathering.join([item("put", id)]))
        except KeyboardInterrupt:
            answers[id] = "interrupted"

    threads = [threading.Thread(target=put, args=(id,)) for id in "abc"]
    threads[0].start()
    is_flying.wait()
    for thread in threads[1:]:
        thread.start()
    while len(gathering._waiting) < 2:
        pass
    goes_on.set()
    for thread in threads:
        thread.join(10)
    assert answers == {"a": "interrupted", "b": ["b"], "c": ["c"]}
