"""The access list of the settings, as the one evaluator answers for it (G20)."""

import pytest

from build import Server, code_of, refusal
from rightful import ANN, BEN, ROOT, Rightful
from rowcast.core.callers import ALL, SERVER, Caller, Grants
from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE
from rowcast.core.topic_tables import branch_of
from rowcast.core.topics import TopicFilter, covers
from rowcast.features.history.history import Window
from rowcast.features.hooks.hook import Hook
from rowcast.features.hooks.hooks import Hooks
from rowcast.features.rights.access_list import AccessList, AccessRule
from rowcast.features.rights.explain import PATH as POLICY
from rowcast.features.rights.rights import Rights
from rowcast.features.undeclared_topics.topic_tables import TopicSettings
from rowcast.kernel.reauthorization import renew
from rowcast.subscriptions.subscription import SubscribedFilter, Subscription


def rule(effect="allow", actions=("all",), topics=("#",), users=(), clients=()):
    sets = frozenset(users), frozenset(clients)
    return AccessRule(effect, frozenset(actions), tuple(topics), *sets)


def who(user="ann", client_id="c1"):
    return Caller(user, ALL, "mqtt", client_id)


def listed(*rules):
    """Return the rights of a server with an access list."""
    return Server(access=rules).kernel.rights


def writes(access, topic, caller=None):
    answers = {access.allows(caller or who(), action, topic) for action in ("write", "publish")}
    assert 1 == len(answers)
    return answers.pop()


def watches(access, text, caller=None):
    return access.allows(caller or who(), "subscribe", text)


def reads(access, topic, caller=None):
    return access.allows(caller or who(), "read", topic)


ASK = {"publish": writes, "subscribe": watches, "read": reads}


async def test_what_no_rule_names_is_denied():
    access = listed(rule(topics=["a"]))
    for ask in ASK.values():
        assert ask(access, "a")
        assert not ask(access, "b")


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["publish"], {"publish"}),
        (["write"], {"publish"}),
        (["read"], {"read"}),
        (["subscribe"], {"subscribe", "read"}),
        (["read", "write"], {"read", "publish"}),
        (["all"], {"publish", "subscribe", "read"}),
    ],
)
async def test_a_rule_is_for_its_actions(actions, expected):
    access = listed(rule(actions=actions))
    assert expected == {name for name, ask in ASK.items() if ask(access, "a")}


async def test_the_first_rule_that_fits_decides():
    rules = [rule("deny", topics=["a/secret"]), rule(topics=["a/+"]), rule("deny", topics=["a/#"])]
    access = listed(*rules)
    assert [False, True, False] == [reads(access, text) for text in ("a/secret", "a/1", "a/1/2")]


async def test_a_rule_is_for_its_users_and_clients():
    access = listed(rule(users=["ann"], clients=["c1", "c2"]))
    assert reads(access, "a", who("ann", "c2"))
    assert not reads(access, "a", who("ben", "c1"))
    assert not reads(access, "a", who("ann", "c3"))


@pytest.mark.parametrize(
    ("pattern", "wanted", "whole"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/+", "a/b", True),
        ("a/+", "a/+", True),
        ("a/+", "a/#", False),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/b", "a/+", False),
        ("a/#", "a", True),
        ("a/#", "a/#", True),
        ("a/#", "a/+/c", True),
        ("a/#", "#", False),
        ("a/#", "+/#", False),
        ("#", "#", True),
        ("#", "+/a", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("+", "#", False),
        ("a//b", "a//b", True),
    ],
)
def test_a_filter_is_allowed_if_a_rule_selects_the_whole_of_it(pattern, wanted, whole):
    assert whole == covers(tuple(pattern.split("/")), wanted.split("/"))


async def test_a_denial_within_a_filter_keeps_back_that_part():
    access = listed(rule("deny", topics=["a/secret"]), rule(topics=["a/#"]))
    assert watches(access, "a/#")
    assert not watches(access, "a/secret")
    assert [True, False] == [reads(access, topic) for topic in ("a/1", "a/secret")]


# -- placeholders ----------------------------------------------------------------------------------

OWN = ["own/${clientid}/#", "home/${username}", "x/dev-${clientid}-${username}/+"]


async def test_placeholders_are_the_callers_names():
    access = listed(rule(topics=OWN))
    for topic in ("own/c1/a/b", "home/ann", "x/dev-c1-ann/1"):
        assert reads(access, topic)
        assert not reads(access, topic, who("ben", "c2"))


@pytest.mark.parametrize("name", ["+", "#", "a/b", "+/x", "a+", "", "c1/#"])
@pytest.mark.parametrize("topic", ["own/+/#", "own/#", "own/a/b", "own/+", "own//x", "own/c1/x"])
async def test_a_name_with_signs_widens_no_rule(name, topic):
    """Neither by what it selects nor by being spelt the same as a filter that is asked for."""
    access = listed(rule(topics=OWN))
    caller = who("ann", name)
    assert not watches(access, topic, caller)
    if not set("+#") & set(topic):
        assert not reads(access, topic, caller)
        assert not writes(access, topic, caller)


async def test_a_name_that_looks_like_a_placeholder_is_a_name():
    access = listed(rule(topics=["own/${clientid}"]))
    assert not reads(access, "own/ann", who("ann", "${username}"))


@pytest.mark.parametrize("topic", ["own/${client}", "a/#/b", "${", "a+"])
def test_a_rule_that_cannot_be_followed_is_refused(topic):
    with pytest.raises(Error) as raised:
        rule(topics=[topic])
    assert Code.INVALID == raised.value.code


# -- memory ----------------------------------------------------------------------------------------


async def test_g6_answers_are_remembered_within_bounds():
    kernel = Server().kernel
    parts = kernel.transcoder, kernel.reader, kernel.listeners
    rules = AccessList([rule(topics=["a/+", "${clientid}"])])
    rights = Rights((), *parts, rules, policies_max=2, topics_max=3)
    for client in range(5):
        for number in range(5):
            caller = who("ann", str(client))
            assert rights.may_read(caller, f"a/{number}")
            assert not rights.may_read(caller, f"b/{number}")
    assert 2 == len(rights._compiled)
    assert all(len(compiled._answers) <= 3 for compiled in rights._compiled.values())


# -- beside the rest of the policy -----------------------------------------------------------------


def shut(*topics, actions=("all",), **about):
    """Return a list that denies these topics and allows all others."""
    system = rule(topics=["$SYS/#"])
    return rule("deny", actions=actions, topics=topics, **about), rule(), system


async def test_both_must_allow():
    """L6, G20: neither a rule nor the role admin opens what the list denies, nor the other way."""
    world = Rightful(access=shut("a/shut", actions=["write"]))
    await world.rule("open", filter="a/#", actions=["all"])
    await world.rule("no", filter="a/no", effect="deny", actions=["write"])
    for caller in (ANN, ROOT):
        assert Code.DENIED == await refusal(world.write("a/shut", {}, caller))
        assert Code.DENIED == await refusal(world.write("a/shut", {}, caller, MESSAGE))
        await world.write("a/free", {}, caller)
    assert Code.DENIED == await refusal(world.write("a/no", {}, ANN))
    await world.write("a/no", {}, ROOT)


async def test_the_server_s_own_rows_are_written_as_the_list_says():
    """G20: an administrator administers only below topics that it may write."""
    world = Rightful(access=shut("$SYS/rules/#", actions=["publish"]))
    assert Code.DENIED == await refusal(world.rule("any", filter="a/#", actions=["all"]))
    world.rights.check_administer("$SYS/rules/any", ROOT)


async def test_a_collection_leaves_out_what_the_list_denies():
    """G6, G20: it is not refused, for nobody asks for its topic; nor is a copy in memory."""
    world = Rightful(access=shut("Cat/2", "Cat"))
    for name in ("1", "2"):
        await world.write(f"Cat/{name}", {"name": name})
    assert [{"id": "1", "name": "1"}] == await world.kernel.read_value("Cat", ANN, None)
    assert Code.DENIED == await refusal(world.kernel.read("Cat/2", ANN))
    assert code_of(world.kernel.peek, "Cat", ANN) is None


async def test_a_subscription_is_allowed_as_a_whole_and_shown_in_part():
    """G4, G6, G20: a filter that no rule covers is refused, what is denied within one withheld."""
    world = Rightful(access=[rule("deny", topics=["a/shut"]), rule(topics=["a/#"])])
    assert Code.DENIED == code_of(world.watch, "#", ANN)
    assert Code.DENIED == code_of(world.watch, "a/shut", ROOT)
    reader = world.watch("a/#", ANN)
    for topic in ("a/shut", "a/free"):
        await world.write(topic, {}, kind=MESSAGE)
    assert ["a/free"] == [topic for _, topic, _ in await world.heard(reader)]


async def test_what_goes_to_a_resource_class_is_written_as_the_list_says():
    """G5, G20: a POST reaches user code below topics only that the caller may write."""
    world = Rightful(access=shut("Lamp"))
    world.rights.check_writer("Lamp", ANN)
    assert Code.DENIED == code_of(world.rights.check_resource, "Lamp", ANN)
    assert code_of(world.rights.check_resource, "Bulb", ANN) is None


async def test_a_refusal_by_the_list_is_reported():
    """L9, G20: it is DENIED for whoever asks; where grants are missing, signing in may help."""
    world, told = Rightful(access=shut("a/#")), []
    world.kernel.listeners.refusals.append(lambda *facts: told.append(facts[1:4]))
    anonymous = Caller("anonymous", ALL, "http")
    assert Code.DENIED == await refusal(world.write("a/b", {}, anonymous))
    assert Code.DENIED == code_of(world.watch, "a/#", anonymous)
    assert [("write", "a/b", "denied"), ("read", "a/#", "denied")] == told
    nobody = Caller("anonymous", door="http")
    assert Code.UNAUTHENTICATED == await refusal(world.write("b", {}, nobody))


async def test_the_explanation_names_the_rule_of_the_list_that_decided():
    """M9, G20: by its number in the settings; a denial of the rest of the policy comes first."""
    access = (*shut("a/shut", users=["ann"]), rule(topics=["$CONTROL/#"]))
    world = Rightful(access=access)
    await world.write("Dog/1", {"owner": "ann"})
    world.people |= {"ann": ANN, "ben": BEN, "root": ROOT}

    async def ask(question):
        row = await world.kernel.resource(f"{POLICY}/{question}", ROOT).get(None)
        return row["allowed"], row["because"]

    said = {
        "ann/write/a/shut": (False, "the access list's rule 'hooks.acl.0' denies it"),
        "ben/write/a/shut": (True, "has 'write'; the access list's rule 'hooks.acl.1' allows it"),
        "ben/publish/$OWN/x": (False, "no rule of the access list (hooks.acl) allows it"),
        "root/read/a/b": (True, "may do everything; the access list's rule 'hooks.acl.1' allows"),
        "ann/read/Dog/1": (True, "as it is now; the access list's rule 'hooks.acl.1' allows it"),
        "ben/read/Dog/1": (False, "@auth"),
        "ann/read/$SYS/users/ann": (True, "its own row; the access list's rule 'hooks.acl.2'"),
        "root/administer/$OWN/x": (True, "may do everything"),
    }
    found = {question: await ask(question) for question in said}
    for question, (allowed, words) in said.items():
        assert allowed == found[question][0], (question, found)
        assert words in found[question][1], (question, found)


# -- not round it ----------------------------------------------------------------------------------


async def test_who_may_not_read_a_user_s_row_may_not_watch_it_either():
    """M9, G20: that the list denies to read it, too, makes it no topic that may be watched."""
    rights = listed(rule("deny", ["read"], ["$SYS/users/#"]), rule(), rule(topics=["$SYS/#"]))
    plain = Caller("ann", Grants(read=True, write=True), "http")
    for text in ("$SYS/users/ben", "$SYS/users/#", "$SYS/users/+"):
        assert Code.DENIED == code_of(rights.check_watch, TopicFilter(text), plain)
        assert Code.DENIED == code_of(rights.check_subscribe, TopicFilter(text), plain)


@pytest.mark.parametrize("topics", [["Dog/#"], ["$stale/#"], ["Dog/#", "$stale/#"], ["Dog/2"]])
@pytest.mark.parametrize("text", ["$stale/Dog/1", "$stale/Dog/#", "Dog/1", "$stale/#"])
async def test_a_subscription_to_silence_is_explained_as_it_is_decided(topics, text):
    """M4, M9, G20: it is asked for as any other; delivered is the silence of what may be read."""
    rights = listed(rule(topics=topics))
    decided = code_of(rights.check_subscribe, TopicFilter(text), who()) is None
    assert decided == watches(rights, text)
    assert ("Dog/#" in topics) == reads(rights, "$stale/Dog/1")


async def test_a_stream_goes_on_with_what_it_began_with():
    """M4, L8, G20: its interest in silence was not asked of the list, and is not later, either."""
    server = Server(access=[rule(topics=["Dog/#"])])
    reader = Subscription(server.reader)
    for text, asked in (("Dog/#", False), ("$stale/Dog/#", True)):
        interest = SubscribedFilter(TopicFilter(text))
        server.kernel.watch(reader, interest, ANN, current=False, asked=asked)
    renew(server.kernel, reader, ANN)
    assert 2 == len(reader.interests)
    no_rights = Caller("ann", Grants(), "http")
    assert Code.DENIED == code_of(renew, server.kernel, reader, no_rights)


async def test_a_row_is_known_to_who_may_read_what_it_is_about():
    """G6, F3, G20: a topic table's row is hidden with its topic."""
    server = Server(topics=TopicSettings(), access=[rule("deny", topics=["home/shut"]), rule()])
    interest = SubscribedFilter(TopicFilter("home/shut"))
    server.kernel.watch(Subscription(server.reader), interest, SERVER, current=False)
    await server.say("home/shut", qos=1, caller=SERVER)
    await server.say("home/open", qos=1, caller=SERVER)
    rows = [row async for page in _rows(server, "mqtt_home/#") for row in page]
    assert {"home/shut", "home/open"} == {row.about for row in rows}
    for row in rows:
        known = await server.past.known(TopicFilter(row.topic), None, ANN)
        assert known == (row.about == "home/open")


def _rows(server, text):
    window = Window(TopicFilter(text), branch_of("home/shut"), 0, server.store.head())
    return server.past.pages(window, SERVER)


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ((), '; did you mean "Dog"?'),
        ((rule(),), '; did you mean "Dog"?'),
        ((rule("deny", ["read"], ["Dog/#"]), rule()), ""),
    ],
)
async def test_a_misspelt_table_is_told_to_who_may_read_it(rules, hint):
    """B16, G20: how to mend it, unless the list hides it."""
    kernel = Server(access=rules).kernel
    with pytest.raises(Error) as missing:
        await kernel.read("Dogs/1", ANN)
    assert Code.NOT_FOUND == missing.value.code
    assert missing.value.message.endswith(hint)
    assert bool(hint) == ("did you mean" in missing.value.message)


async def test_a_hook_s_new_topic_is_asked_of_the_list_too():
    """G7, G20: both what was asked for and what a hook made of it need a rule."""

    class Moves(Hook):
        def on_publish_received(self, caller, event):
            return event.changed(topic=f"b/{event.topic}")

        def on_subscribe(self, caller, interest):
            interest.filter = f"b/{interest.filter}"

    async def refusals(*topics):
        hooks = Hooks()
        hooks.add(Moves())
        server = Server(hooks=hooks, access=[rule(topics=topics)])
        interest = SubscribedFilter(TopicFilter("a/1"))
        return await refusal(server.say("a/1")), code_of(server.kernel.authorise, interest, ANN)

    assert (None, None) == await refusals("a/#", "b/#")
    for topics in (["a/#"], ["b/#"]):
        assert (Code.DENIED, Code.DENIED) == await refusals(*topics)


async def test_hooks_are_not_called_for_what_the_list_refuses():
    """G5, G20: as for what rules refuse."""
    heard = []

    class Hears(Hook):
        def on_publish(self, caller, event):
            heard.append(event.topic)

        def on_subscribe(self, caller, interest):
            heard.append(interest.topics.text)

    hooks = Hooks()
    hooks.add(Hears())
    server = Server(hooks=hooks, access=[rule(topics=["a/#"])])
    for topic in ("a/1", "b/1"):
        await refusal(server.say(topic))
        code_of(server.kernel.authorise, SubscribedFilter(TopicFilter(topic)), ANN)
    assert ["a/1", "a/1"] == heard
