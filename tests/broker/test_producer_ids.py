"""Producer ids are requested before they are needed."""

from kraft.broker.producer_ids import ProducerIds


class World:
    """`requests`: how often a block was requested; `taken`: the ids that producers got."""

    def __init__(self) -> None:
        self.requests = 0
        self.taken: list[int | None] = []
        self.ids = ProducerIds(self._request)

    def _request(self, now_ms: int) -> None:
        assert now_ms == 7
        self.requests += 1

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            self.ids.take(7, self.taken.append)


def test_the_first_block_is_requested_once() -> None:
    world = World()
    world.ids.prepare(7)
    world.ids.prepare(7)
    assert world.requests == 1
    world.ids.refill(100, 20, 7)
    world.take(5)
    assert (world.requests, world.taken) == (1, [100, 101, 102, 103, 104])


def test_ids_are_held_ready_once_the_cluster_has_a_producer() -> None:
    world = World()
    world.ids.follow(-1, 7)
    assert world.requests == 0
    world.ids.follow(1000, 7)
    assert world.requests == 1
    world.ids.refill(1000, 1000, 7)
    world.ids.follow(2000, 7)
    assert world.requests == 1


def test_the_next_block_is_requested_before_the_last_id_is_used() -> None:
    world = World()
    world.ids.prepare(7)
    world.ids.refill(0, 20, 7)
    world.take(17)
    assert world.requests == 1
    world.take()
    assert world.requests == 2
    world.take(2)
    assert world.taken == list(range(20))
    world.ids.refill(500, 20, 7)
    world.take()
    assert (world.requests, world.taken[-1]) == (2, 500)


def test_producers_wait_in_order_for_a_block() -> None:
    world = World()
    world.take(3)
    assert (world.requests, world.taken) == (1, [])
    world.ids.refill(10, 2, 7)
    assert (world.requests, world.taken) == (2, [10, 11])
    world.ids.refill(30, 20, 7)
    assert world.taken == [10, 11, 30]


def test_without_a_controller_they_get_none_and_the_next_one_requests_again() -> None:
    world = World()
    world.take(2)
    world.ids.refused()
    assert world.taken == [None, None]
    world.take()
    assert world.requests == 2
    world.ids.refill(10, 20, 7)
    assert world.taken == [None, None, 10]
