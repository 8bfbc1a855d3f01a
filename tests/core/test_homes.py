"""A session is known again by its beginning, and is at home where its prefix is cached."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support_homes import settle
from support_routing import LONG, POLICY, STANDARD, Rig, talk

from rigctl.core.ask import Ask, Endpoint
from rigctl.core.clusters import RoutePolicy
from rigctl.core.home import MOST_DIGESTS, Home, kept
from rigctl.core.homes import Homes
from rigctl.core.ids import GroupName, Mono

HEAD = "You are a coding agent. " * 600


def _settle(homes: Homes, ask: Ask, at: float = 0.0, cluster: GroupName = STANDARD) -> Home:
    home = settle(homes, ask, cluster, "s1", at, 5_000, POLICY)
    homes.ended(home)
    return home


@pytest.mark.case("C19")
def test_ten_sessions_with_one_head_spread_and_stay() -> None:
    """14,000 identical characters are no session: six and four, and each second turn at home."""
    rig = Rig()
    asks = [talk(f"fix bug {n}", head=HEAD) for n in range(10)]
    first = [rig.sent(ask) for ask in asks]
    assert [to for to, _ in first] == [STANDARD] * 6 + [LONG] * 4
    assert len({home.label for _, home in first}) == 10
    rig.all_end()
    second = [
        rig.sent(talk(f"fix bug {n}", f"a: done {n}", "and the next", head=HEAD))
        for n in reversed(range(10))
    ]
    assert [(to, home.label) for to, home in reversed(second)] == [
        (to, home.label) for to, home in first
    ]
    assert {home.turns for _, home in second} == {2}


@pytest.mark.case("C19")
@pytest.mark.parametrize("third", [("a: one", "a: two"), ("a: same", "a: same")])
@pytest.mark.parametrize("session", ["", "one-id-for-both"])
def test_two_agents_with_the_same_question_are_told_apart(
    third: tuple[str, str], session: str
) -> None:
    """From the message on in which they differ, whether that is an answer or a question."""
    rig = Rig()
    first = {rig.sent(talk("do it", session=session))[1].label for _ in range(2)}
    assert len(first) == 2
    rig.all_end()
    one = rig.sent(talk("do it", third[0], "left", session=session))[1]
    two = rig.sent(talk("do it", third[1], "right", session=session))[1]
    assert one.label in first
    assert two.label != one.label
    for more in (("a: x", "go"), ("a: x", "go", "a: y", "on")):
        rig.all_end()
        left = talk("do it", third[0], "left", *more, session=session)
        right = talk("do it", third[1], "right", *more, session=session)
        assert rig.sent(left)[1].label == one.label
        assert rig.sent(right)[1].label == two.label


@pytest.mark.case("C19")
def test_an_explicit_id_tells_equal_questions_apart() -> None:
    """Two clients that ask the same words are two sessions where their ids say so."""
    homes = Homes()
    one = _settle(homes, talk("hello", session="alice"))
    two = _settle(homes, talk("hello", session="bob"))
    assert one.label != two.label
    found = homes.find(talk("hello", "a: hi", "more", session="bob"), Mono(1.0), POLICY)
    assert (found.label, found.source) == (two.label, "x-session-id")


@pytest.mark.case("C19")
def test_user_alone_is_no_session() -> None:
    """`user` names a person or a whole company: it narrows nothing."""
    homes = Homes()
    _settle(homes, talk("one question", session="acme", source="user"))
    found = homes.find(talk("another", session="acme", source="user"), Mono(1.0), POLICY)
    assert found.home is None


@pytest.mark.case("C18")
def test_a_clock_in_the_system_prompt_does_not_lose_the_home() -> None:
    """The words after it find the session, from the first answer on."""
    homes = Homes()
    _settle(homes, talk("q", head="12:00"))
    second = talk("q", "a: x", "r", head="12:01")
    assert homes.find(second, Mono(1.0), POLICY).home is None
    label = _settle(homes, second, 1.0).label
    third = talk("q", "a: x", "r", "a: y", "s", head="12:02")
    found = homes.find(third, Mono(2.0), POLICY)
    assert (found.label, found.source) == (label, "turns")
    assert _settle(homes, third, 2.0).label == label


@pytest.mark.case("C18")
def test_with_an_id_a_clock_loses_not_even_the_first_turn() -> None:
    """Known by its id, a lone session with the same first words is the same one."""
    homes = Homes()
    first = _settle(homes, talk("q", head="12:00", session="me"))
    found = homes.find(talk("q", "a: x", "r", head="12:01", session="me"), Mono(1.0), POLICY)
    assert found.label == first.label


def test_a_first_question_under_another_head_is_another_session() -> None:
    """Without an id, equal questions under unequal heads are never merged."""
    homes = Homes()
    _settle(homes, talk("hello", head="one agent"))
    found = homes.find(talk("hello", "a: hi", "more", head="another"), Mono(1.0), POLICY)
    assert found.home is None


def test_an_id_renewed_with_every_request_hides_no_session() -> None:
    """`x-client-request-id` of some clients is new each time; the chain goes on."""
    homes = Homes()
    source = "x-client-request-id"
    first = _settle(homes, talk("q", session="r1", source=source))
    found = homes.find(talk("q", "a: x", "r", session="r2", source=source), Mono(1.0), POLICY)
    assert found.label == first.label or found.home is None
    second = _settle(homes, talk("q", "a: x", "r", session="r2", source=source), 1.0)
    third = talk("q", "a: x", "r", "a: y", "s", session="r3", source=source)
    assert homes.find(third, Mono(2.0), POLICY).label == second.label


def test_a_branch_goes_where_its_trunk_is_under_its_own_label() -> None:
    """The shared prefix is cached there; only that much is counted as lost elsewhere."""
    homes = Homes()
    trunk = settle(homes, talk("q"), LONG, "l1", 0.0, 1_000, POLICY)
    ask = talk("q", "a: x", "r")
    settle(homes, ask, LONG, "l1", 1.0, 9_000, POLICY)
    found = homes.find(talk("q", "a: other", "s"), Mono(2.0), POLICY)
    assert found.branch
    assert found.home is not None
    assert (found.home.cluster, found.tokens, found.label) == (LONG, 1_000, "")
    branch = settle(homes, talk("q", "a: other", "s"), LONG, "l1", 2.0, 2_000, POLICY)
    assert branch.label != trunk.label


def test_a_resend_is_the_same_turn() -> None:
    """A client that tries again is in the same session, and its turn counts once."""
    homes = Homes()
    _settle(homes, talk("q"))
    once = _settle(homes, talk("q", "a: x", "r"), 1.0)
    again = _settle(homes, talk("q", "a: x", "r"), 2.0)
    assert (once.label, once.turns) == (again.label, again.turns) == (again.label, 2)


def test_the_same_ask_beside_one_that_runs_is_another_session() -> None:
    """Ten that begin with the same words spread like ten; samples of one prompt stay with it."""
    rig = Rig()
    sent = [rig.sent(talk("the same words")) for _ in range(10)]
    assert [to for to, _ in sent] == [STANDARD] * 6 + [LONG] * 4
    assert len({home.label for _, home in sent}) == 10
    rig.all_end()
    to, home = rig.sent(talk("the same words", "a: x", "r"))
    twin_to, twin = rig.sent(talk("the same words", "a: x", "r"))
    assert (to, home.turns, twin_to, twin.turns) == (to, 2, to, 1)
    assert home.label != twin.label


@pytest.mark.case("C19")
def test_plain_prompts_with_a_common_preamble_are_told_apart() -> None:
    """Blocks stand in for messages: a grown prompt is the same session, a neighbour is not."""
    homes = Homes()
    plain = Endpoint.COMPLETIONS
    one = _settle(homes, talk("pre", "amble", "half", endpoint=plain))
    two = _settle(homes, talk("pre", "amble", "other", endpoint=plain), 1.0)
    assert one.label != two.label
    grown = _settle(homes, talk("pre", "amble", "other", "ha", endpoint=plain), 2.0)
    assert grown.label == two.label
    full = _settle(homes, talk("pre", "amble", "other", "half full", "h", endpoint=plain), 3.0)
    assert full.label == two.label


def test_a_client_that_rewrites_its_past_keeps_its_session() -> None:
    """Old tool output cut out of the middle is no branch: the whole is longer than before."""
    homes = Homes()
    _settle(homes, talk("q"))
    long_talk = ("q", "a: call", "tool output " * 9, "a: y", "go on")
    label = _settle(homes, talk(*long_talk), 1.0).label
    cut = ("q", "a: call", "[cut]", "a: y", "go on", "a: z", "more")
    found = homes.find(talk(*cut), Mono(2.0), POLICY)
    assert (found.label, found.branch) == (label, False)
    assert _settle(homes, talk(*cut), 2.0).label == label
    assert homes.find(talk(*cut, "a: w", "end"), Mono(3.0), POLICY).label == label


def test_the_owners_rule_takes_the_opening_and_nothing_else() -> None:
    """`session_rule = "opening"`: the first 4,000 characters, ids and chains unheeded."""
    policy = replace(POLICY, session_rule="opening")
    homes = Homes()
    first = talk("one", head=HEAD, session="a")
    home = settle(homes, first, STANDARD, "s1", 0.0, 5_000, policy)
    found = homes.find(talk("two", head=HEAD, session="b"), Mono(1.0), policy)
    assert (found.label, found.source) == (home.label, "opening")
    assert homes.find(talk("two", head="short"), Mono(1.0), policy).home is None


def test_an_engine_started_anew_leaves_its_homes_cold_and_says_so() -> None:
    """The label stays; the cache is known to be gone, and why."""
    homes = Homes()
    home = _settle(homes, talk("q"))
    assert homes.lost(STANDARD, "s1", "same start") == 0
    assert homes.lost(STANDARD, "s2", "`standard` was restarted") == 1
    found = homes.find(talk("q", "a: x", "r"), Mono(1.0), POLICY)
    assert found.home is not None
    assert (found.label, found.home.cold, found.tokens) == (
        home.label,
        "`standard` was restarted",
        0,
    )


def test_what_ended_is_told_once_for_its_former_engine() -> None:
    """Silent too long, pushed out, or moved: the engine may close its session."""
    homes = Homes(most=2)
    labels = [_settle(homes, talk(f"q{n}"), float(n)).label for n in range(3)]
    settle(homes, talk("q2", "a: x", "r"), LONG, "l1", 3.0, 1, POLICY)
    ended = homes.expired(Mono(4.0), POLICY)
    assert [(each.label, each.cluster) for each in ended] == [
        (labels[0], STANDARD),
        (labels[2], STANDARD),
    ]
    assert homes.expired(Mono(4.0), POLICY) == ()
    late = homes.expired(Mono(4.0 + POLICY.home_ttl + 1), POLICY)
    assert sorted(each.label for each in late) == sorted(labels[1:])
    assert len(homes) == 0
    assert homes._index.chain == {}
    assert homes._index.ids == {}


def test_answers_tell_how_much_lies_there() -> None:
    """Context as the engine counted it, cached tokens as it told; nothing told changes nothing."""
    homes = Homes()
    home = _settle(homes, talk("q"))
    told = homes.answered(home, 900, 400.0, 1_200, Mono(1.0))
    assert (told.tokens, told.cached) == (1_200, 400.0)
    assert homes.find(talk("q", "a: x", "r"), Mono(2.0), POLICY).tokens == 1_200


def test_homes_live_through_a_restart_without_a_text() -> None:
    """By what changed, through JSON; broken rows and rows of another boot cost themselves."""
    homes = Homes()
    journal: list[object] = []
    for n in range(5):
        ask = talk(f"secret words {n}", "a: x", "r", session=f"id{n}")
        _settle(homes, ask, float(n))
        journal += homes.changes()
    ask = talk("secret words 3", "a: x", "r", "a: y", "s", session="id3")
    homes.ended(settle(homes, ask, LONG, "l1", 9.0, 77, POLICY))
    journal += homes.changes()
    text = json.dumps(journal)
    assert "secret" not in text
    rows = json.loads(text)
    again, bad = Homes.from_json([*rows, {"label": 3}, None], Mono(10.0))
    assert bad == 2
    assert again.all() == homes.all()
    for n in range(5):
        ask = talk(f"secret words {n}", "a: x", "r", "a: y", "s", session=f"id{n}")
        assert again.find(ask, Mono(10.0), POLICY) == homes.find(ask, Mono(10.0), POLICY)
    assert Homes.from_json(rows, Mono(5.0))[1] == 1


def test_a_session_keeps_a_bounded_number_of_digests() -> None:
    """However long the talk; its beginning and its end are always among them."""
    for count in (*range(200), 1_000, 4_096):
        places = kept(count)
        assert len(places) <= MOST_DIGESTS
        assert set(range(min(count, 4))) | set(range(max(0, count - 24), count)) <= set(places)
        assert places == sorted(set(places))


@pytest.mark.case("C48")
def test_only_the_cluster_that_gave_a_response_is_remembered_with_it() -> None:
    """And the run it gave it in."""
    homes = Homes()
    homes.gave("resp_1", LONG, "l1")
    ask = talk("go on", previous="resp_1")
    assert homes.find(ask, Mono(0.0), RoutePolicy()).pinned == (LONG, "l1")
    assert homes.find(talk("x", previous="resp_2"), Mono(0.0), RoutePolicy()).pinned is None
    told = homes.changes()
    assert homes.changes() == []
    again, bad = Homes.from_json(json.loads(json.dumps(told)), Mono(1.0))
    assert bad == 0
    assert again.changes() == []
    assert again.find(ask, Mono(1.0), RoutePolicy()).pinned == (LONG, "l1")
