"""Topic tables and sources as tests for every store: parts of the log that come and go."""

import pytest
from store_cases import DOG, before_and_after

from rowcast.core.errors import Code, Error
from rowcast.core.events import MESSAGE, PUT
from rowcast.core.topic_tables import TopicRoot, TopicTable
from rowcast.core.topics import TopicFilter
from rowcast.store.store import Figures, Keep

ALL = 10**6
HOME = TopicTable("mqtt_home", TopicRoot("home"))
YARD = TopicTable("mqtt_yard", TopicRoot("yard"))
SINGLE = TopicTable("mqtt_messages", TopicRoot(None))


def seqs(store, *sources, after=0, limit=ALL):
    return [event.seq for event in store.read(after, limit, sources)]


class TopicTableConformance:
    """What every store does with topic tables."""

    def test_f3_messages_are_the_part_of_their_branch(self, store, writer):
        for table in (HOME, SINGLE):
            store.define(table)
        topics = ["home/a", "home", "yard/a", "home/b/c", "homes/a", "/home/a"]
        store.commit([writer.event(topic, MESSAGE, b"x") for topic in topics])
        store.commit([writer.value(DOG, "a", {}), writer.event("home/a", PUT, b"yy")])
        assert seqs(store, TopicRoot("home")) == [1, 4, 8]
        assert seqs(store, TopicRoot(None)) == [2]
        assert seqs(store, TopicRoot("yard")) == [3, 5, 6]  # what has no table is together
        assert seqs(store, None) == [1, 2, 3, 4, 5, 6, 8]
        assert seqs(store, TopicRoot("home"), TopicRoot(None)) == [1, 2, 4, 8]
        assert seqs(store, TopicRoot("home"), DOG) == [1, 4, 7, 8]
        assert [event.seq for event in store.read(0, ALL)] == list(range(1, 9))
        assert store.figures(HOME.branch) == Figures(1, 3, 4, 0)
        assert store.topic_tables() == [HOME, SINGLE]

    def test_pages_of_several_sources_are_in_order(self, store, writer):
        store.define(HOME)
        store.define(YARD)
        store.commit([writer.event(f"{['home', 'yard', 'x'][n % 3]}/a") for n in range(12)])
        both = (YARD.branch, HOME.branch)
        assert seqs(store, *both, after=2, limit=4) == [4, 5, 7, 8]
        back = [event.seq for event in store.read_back(9, 4, both)]
        assert back == [8, 7, 5, 4]
        assert [event.seq for event in store.read_back(3, ALL, [None])] == [2, 1]
        assert [event.seq for event in store.read_back(ALL, 2)] == [12, 11]

    def test_equal_places_read_the_same(self, store):
        """What was read for one reader serves another: so it is without any topic table."""
        branches = [[HOME.branch], [YARD.branch, HOME.branch], [YARD.branch], [None]]
        assert len({store.place(after, some) for some in branches for after in (0, 9)}) == 1
        places = [store.place(0, some) for some in ([DOG], [None], [DOG, None], None)]
        assert len(set(places)) == 4
        store.define(HOME)
        assert len({store.place(0, some) for some in ([HOME.branch], [YARD.branch], [None])}) == 3

    def test_many_sources_are_sifted_from_the_log(self, store, writer):
        tables = [TopicTable(f"mqtt_b{n}", TopicRoot(f"b{n}")) for n in range(20)]
        for table in tables:
            store.define(table)
        store.commit([writer.event(f"b{n % 20}/a") for n in range(40)])
        store.commit([writer.value(DOG, "a", {})])
        most = [table.branch for table in tables[:18]]
        assert seqs(store, *most, after=16) == [17, 18, *range(21, 39)]
        assert seqs(store, None, after=35) == [36, 37, 38, 39, 40]
        assert [event.seq for event in store.read_back(41, 3, most)] == [38, 37, 36]
        assert [store.since(source, 20 << 16) for source in (None, most[2], DOG)] == [19, 22, 40]
        assert store.place(0, most) != store.place(0, [None]) != store.place(0, most[:17])
        store.drop(tables[0])
        assert seqs(store, None, after=35) == [36, 37, 38, 39, 40]
        assert seqs(store, None, DOG, after=18) == [19, 20, *range(22, 42)]

    def test_define_moves_nothing_and_reads_what_was_before(self, store, writer):
        """An old file, or a table over the cap: its branch's events stay in the general part."""
        store.commit([writer.event("home/a", PUT), writer.event("yard/a", PUT)])
        assert store.place(0, [HOME.branch]) == store.place(0, [YARD.branch])
        store.define(HOME)
        store.commit([writer.event("yard/b"), writer.event("home/b", PUT)])
        assert seqs(store, HOME.branch) == [1, 2, 4]  # and others without a table at that time
        assert seqs(store, HOME.branch, after=2) == [4]
        assert seqs(store, YARD.branch) == [1, 2, 3]
        assert [e.seq for e in store.read_back(ALL, ALL, [HOME.branch])] == [4, 2, 1]
        assert [e.seq for e in store.history(None, "home/a", 5)] == [1]
        assert [e.seq for e in store.history(HOME.branch, "home/b", 5)] == [4]
        assert store.place(2, [HOME.branch]) != store.place(2, [YARD.branch])

    def test_e19_retained_messages_count_for_their_branch(self, place, store, writer):
        topics = ["home/a", "home/b", "home", "homes", "hom/x", "home0", "yard/a"]
        store.commit([writer.event(topic, PUT) for topic in topics])
        for table in (HOME, SINGLE):
            store.define(table)
        counts = [(HOME.branch, 2), (SINGLE.branch, 3), (YARD.branch, 0), (None, 7)]
        assert [store.count(source) for source, _ in counts] == [n for _, n in counts]
        store.commit([writer.delete("home/a"), writer.event("home/z", PUT), writer.delete("no")])
        store.commit([writer.event("home/y", PUT), writer.delete("home/y"), writer.delete("homes")])
        counts = [(HOME.branch, 2), (SINGLE.branch, 2), (None, 6)]
        for now in before_and_after(store, place):
            assert [now.count(source) for source, _ in counts] == [n for _, n in counts]
        now.drop(HOME)
        assert (now.count(HOME.branch), now.count(None)) == (0, 6)
        now.define(HOME)
        assert (now.count(HOME.branch), now.get(None, "home/z").seq) == (2, 9)

    def test_all_of_it_is_there_after_a_restart(self, place, store, writer):
        store.commit([writer.event("home/old")])
        store.define(HOME)
        store.define(SINGLE)
        store.commit([writer.event("home/a", PUT, b"123"), writer.event("a"), writer.event("b/c")])
        store.trim(SINGLE.branch, Keep(events=0, seconds=1), 1e9, ALL)
        sources = (HOME.branch, SINGLE.branch, YARD.branch, None)
        before = [(store.figures(source), seqs(store, source)) for source in sources]
        again = place.start()
        assert again.topic_tables() == [HOME, SINGLE]
        assert [(again.figures(source), seqs(again, source)) for source in sources] == before
        assert before[0] == (Figures(2, 1, 3, 0), [1, 2])
        assert before[1][0].trimmed == 3

    @pytest.mark.parametrize(
        "payload", [b"", b"text", "ä\U0001f415".encode(), b"a\0b", b"\xff\x00", b"\xed\xa0\x80"]
    )
    def test_b21_a_message_comes_back_as_the_same_bytes(self, store, writer, payload):
        store.define(HOME)
        event = writer.event("home/a", PUT, payload)
        store.commit([event])
        assert [found.fields for found in store.read(0, ALL, [HOME.branch])] == [event.fields]
        assert store.history(None, "home/a", 1)[0].payload == payload
        assert store.figures(HOME.branch).bytes == len(payload)
        store.trim(HOME.branch, Keep(seconds=1), 1e9, ALL)
        assert store.figures(HOME.branch).bytes == 0

    def test_e8_one_iterator_over_all_retained_messages(self, store, writer):
        """E8: in topic order, whoever wrote them and whatever table counts them (E7)."""
        store.define(HOME)
        topics = ["yard/b", "home/b", "a", "home/a", "yard/a", "home", "b/c"]
        for number, topic in enumerate(topics):
            store.commit([writer.event(topic, PUT, client=f"c{number}")])
        store.define(YARD)
        found, after = [], ""
        while page := store.scan(None, TopicFilter("#"), after, 2).records:
            found += [record.topic for record in page]
            after = found[-1]
        assert found == sorted(topics)

    # -- trimming and dropping

    def test_trim_of_a_branch_is_of_its_table_alone(self, store, writer):
        store.commit([writer.event("home/old"), writer.event("yard/a")])
        store.define(HOME)
        store.commit([writer.event(f"home/{n}") for n in range(5)])
        assert store.trim(HOME.branch, Keep(events=2), 0, ALL) == 3
        assert store.trim(YARD.branch, Keep(events=1), 0, ALL) == 0
        found = [store.trimmed(source) for source in (HOME.branch, YARD.branch, None, DOG)]
        assert found == [5, 0, 5, 0]
        assert store.trim(None, Keep(events=1), 0, ALL) == 1
        assert store.trimmed(YARD.branch) == 1
        assert seqs(store, None) == [2, 6, 7]

    def test_what_the_general_part_loses_later_is_no_loss_of_a_table(self, store, writer):
        store.commit([writer.event("yard/a")])
        store.define(HOME)
        store.commit([writer.event("yard/a"), writer.event("home/a"), writer.event("yard/a")])
        assert store.trim(None, Keep(events=1), 0, ALL) == 2
        assert [store.trimmed(source) for source in (HOME.branch, YARD.branch)] == [1, 2]

    def test_f14_drop_ends_the_events_and_says_so(self, place, store, writer):
        store.define(HOME)
        store.define(YARD)
        store.commit([writer.event("home/a", PUT), writer.event("yard/a"), writer.event("home/b")])
        store.drop(HOME)
        for now in before_and_after(store, place):
            assert now.topic_tables() == [YARD]
            assert seqs(now, None) == [2]
            assert [event.seq for event in now.read(0, ALL)] == [2]
            found = [now.trimmed(source) for source in (HOME.branch, YARD.branch, None)]
            assert found == [3, 0, 3]
            assert now.head() == 3
            assert now.get(None, "home/a").seq == 1
        now.define(HOME)
        writer.seq = 3
        now.commit([writer.event("home/c")])
        assert (seqs(now, HOME.branch), now.trimmed(HOME.branch)) == ([4], 3)

    def test_drop_of_what_had_no_events_leaves_nothing_behind(self, store):
        store.define(HOME)
        store.drop(HOME)
        assert (store.trimmed(HOME.branch), store.trimmed(None)) == (0, 0)

    def test_define_and_drop_may_be_repeated(self, store, writer):
        for _ in range(2):
            store.define(HOME)
        store.commit([writer.event("home/a")])
        store.define(HOME)
        assert seqs(store, HOME.branch) == [1]
        for _ in range(2):
            store.drop(HOME)
        assert store.topic_tables() == []

    @pytest.mark.parametrize(
        "other",
        [TopicTable("mqtt_other", TopicRoot("home")), TopicTable("mqtt_home", TopicRoot("Home"))],
        ids=["branch", "name"],
    )
    def test_x3_no_two_branches_share_a_table(self, store, other):
        store.define(HOME)
        for call in (store.define, store.drop):
            with pytest.raises(Error) as caught:
                call(other)
            assert caught.value.code is Code.CONFLICT
        assert store.topic_tables() == [HOME]

    def test_several_are_made_together_or_none(self, place, store, writer):
        """F11: one transaction for all that a commit needs."""
        with pytest.raises(Error):
            store.define(YARD, HOME, TopicTable("mqtt_home", TopicRoot("Home")))
        assert store.topic_tables() == []
        store.define(HOME)
        store.define(YARD, HOME, YARD, SINGLE)
        store.commit([writer.event("home/a"), writer.event("yard/a"), writer.event("a")])
        for now in before_and_after(store, place):
            assert now.topic_tables() == [HOME, YARD, SINGLE]
            assert [seqs(now, table.branch) for table in (HOME, YARD, SINGLE)] == [[1], [2], [3]]

    @pytest.mark.parametrize("level", ["", "ä'\"%_", "$SYS", " ", "0"])
    def test_any_first_level_can_have_a_table(self, place, store, writer, level):
        table = TopicTable("mqtt_x", TopicRoot(level))
        store.define(table)
        store.commit([writer.event(f"{level}/a", PUT), writer.event("a/b", PUT)])
        again = place.start()
        assert again.topic_tables() == [table]
        assert (seqs(again, table.branch), again.count(table.branch)) == ([1], 1)
