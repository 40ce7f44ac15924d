"""`kraft why group NAME`: what it says of groups in each state."""

from kraft.cli.group_why import classic_answers, consumer_answers
from kraft.client.groups import DescribedGroup, Member, MemberProgress, Progress


def member(name: str, epoch: int, assigned: list[int], target: list[int]) -> MemberProgress:
    return MemberProgress(name, f"app-{name}", "/10.0.0.7", epoch, tuple(("orders", index) for index in assigned),
                          tuple(("orders", index) for index in target))


def test_a_stable_group() -> None:
    group = Progress("g", "Stable", 3, 3, (member("a", 3, [0, 1], [0, 1]), member("b", 3, [], [])))
    answers = list(consumer_answers(group))
    assert all(answer.is_well for answer in answers)
    assert [answer.text for answer in answers] == [
        "Group g is stable in epoch 3, with 2 members.",
        "Member a (app-a at 10.0.0.7) reads orders/0, orders/1, in epoch 3.",
        "Member b (app-b at 10.0.0.7) reads nothing, in epoch 3."]


def test_a_rebalance_names_members_and_their_blockers() -> None:
    group = Progress("g", "Reconciling", 4, 4, (
        member("a", 3, list(range(8)), [0, 1]), member("b", 4, [], [2, 3, 9]), member("c", 3, [10], [10])))
    answers = list(consumer_answers(group))
    assert not any(answer.is_well for answer in answers)
    assert [answer.text for answer in answers] == [
        "Group g is rebalancing: 3 members go to the target of epoch 4.",
        ("Member a (app-a at 10.0.0.7) has yet to give up orders/2, orders/3, orders/4, orders/5, orders/6 and 1 more, "
         "for b (app-b at 10.0.0.7): it does so at a heartbeat, or is removed when its rebalance time-out has passed."),
        "Member b (app-b at 10.0.0.7) waits for orders/2, orders/3, which a (app-a at 10.0.0.7) still has.",
        "Member b (app-b at 10.0.0.7) gets orders/9 at its next heartbeat.",
        "Member c (app-c at 10.0.0.7) is in epoch 3, and enters the next one at its next heartbeat."]


def test_a_group_whose_target_is_due() -> None:
    (first, *_) = consumer_answers(Progress("g", "Assigning", 5, 4, (member("a", 4, [0], [0]),)))
    assert not first.is_well
    assert "epoch 5" in first.text and "epoch 4" in first.text


def test_classic_groups() -> None:
    reader = Member("m", None, "app", "/10.0.0.7", (("orders", 1),))
    stable = DescribedGroup("g", "classic", "Stable", "consumer", "range", (reader,))
    assert [answer.text for answer in classic_answers(stable)] == [
        "Group g is stable, with 1 member.", "Member m (app at 10.0.0.7) reads orders/1."]
    waiting = list(classic_answers(stable._replace(state="PreparingRebalance", members=())))
    assert not waiting[0].is_well
    assert "joined again" in waiting[0].text
