"""Every bound of the house: its value, its unit (last in the name) and the reason for the value.

A queue, buffer, retry or timeout that has no name here is a mistake (tests/test_tidy.py). Values
that an operator may change are defaults of ``config.py``.
"""

# Topics and values ------------------------------------------------------------------------------
TOPIC_BYTES_MAX = 65_535
"""A topic is an MQTT UTF-8 string: two length bytes (MQTT 5, 1.5.4)."""
TOPIC_LEVELS_MAX = 128
"""Deep enough for every real tree; bounds recursion and trie depth for a stranger's filter."""
VALUE_DEPTH_MAX = 64
"""Nesting of lists and maps in one value; far below where a decoder or encoder would recurse
away."""
PAYLOAD_BYTES_MAX = 2 * 1024 * 1024
"""One body or payload (D58: 2 MB)."""

# Bus and subscriptions --------------------------------------------------------------------------
SUBSCRIPTION_QUEUE_EVENTS_MAX = 8_192
"""More than one socket read (256 KiB) of small publishes, so a healthy reader never falls behind
within one turn of the loop; a slow one goes back to the log at this point."""
SUBSCRIPTION_QUEUE_BYTES_MAX = 8 * 1024 * 1024
"""Memory that one stopped reader can hold."""
GAP_MARKS_TOGETHER_MAX = 8
"""Marks of lost events, each for other interests, that follow one another in a full queue; beyond
it one mark counts for all interests."""
DEADLINE_SECONDS_MIN = 0.1
"""The shortest deadline: below, the silence would be the server's own turn."""
DEADLINE_RECORDS_MAX = 1_000_000
"""Records that are awaited at once: some 200 MB with their topics."""
DEADLINE_LOOKS_PER_TURN = 256
"""Awaited records that are looked at in one turn: a millisecond, so that others have theirs."""
DEADLINE_RETRY_SECONDS = 1.0
"""Until it is tried again to tell of a late record, when the disk refused."""
DEADLINE_TIMER_SECONDS_MAX = 60.0
"""The longest wait for a deadline: by then a wall clock that was set is noticed."""
LOG_PAGE_EVENTS = 512
"""Events read from the log at a time by a reader that is behind: a few hundred microseconds."""
LOG_CACHE_EVENTS_MAX = 16_384
"""Events of pages of the log in memory, so that sessions that come back together read them once:
thirty-two pages, some 8 MB with small payloads."""
LOG_CACHE_PAGES_MAX = 64
"""These pages, of which some are short: as many are looked at to find one."""
SCAN_PAGE_RECORDS = 1_000
"""Records read at a time for a snapshot: one statement, so a table of this size is seen at one
instant."""
SCAN_PAGE_BYTES = 1024 * 1024
"""Payload bytes read at a time for a snapshot, and one record: without it a page of a hundred
retained messages could be a hundred megabytes for one subscriber."""
SCANS_TOGETHER_MAX = 64
"""Filters whose current records one trip to a reader thread finds: the trip is little beside them,
and all of them are about a millisecond of that thread and of the loop."""
RETAINED_PAYLOAD_BYTES_MAX = 1024 * 1024
"""A message that is kept at an undeclared topic: 1 MB, half of what a body may have."""
RETAINED_PAGE_RECORDS = 100
"""Retained messages read at a time for one subscriber: a millisecond of the loop, so that others
notice nothing (E21), and one page in memory."""
SERVERS_OWN_RECORDS_MAX = 10_000
"""Records that the server keeps below $SYS: some dozens, and those of single parts."""
RETAINED_DELIVERY_RATE = 10_000
"""Retained messages to one subscriber in a second: a tenth of a core, so that one who asks for all
stalls no publisher."""
RETAINED_BURST_RECORDS = 1_000
"""Of those, at once: most subscribers ask for fewer, and are not delayed."""
ROW_SLICE_EVENTS = 500
"""Events of the log made rows and sifted at a time, on a reader thread: a few milliseconds."""
ROW_PAGE_ROWS_MAX = 10_000
"""Rows of a topic table in memory at once, for a reader that names no limit."""
ROW_SORTED_ROWS_MAX = 50_000
"""Rows of a topic table that are sorted by what the log has in no order: about two seconds."""
MATCH_CACHE_TOPICS_MAX = 65_536
"""Topics whose subscribers (bus) or route (kernel) are remembered; cleared when full."""

# Store ------------------------------------------------------------------------------------------
COMMIT_BATCH_EVENTS_MAX = 2_000
"""Writes in one transaction: keeps a commit near 10 ms, so acknowledgements keep flowing."""
COMMIT_BACKLOG_EVENTS_MAX = 50_000
"""Writes waiting for the disk before new ones are refused with BUSY."""
COMMIT_BACKLOG_EVENTS_HIGH = 10_000
"""Writes waiting before publishing connections are no longer read from."""
COMMIT_BACKLOG_CHANGES_MAX = 100_000
"""Changes of facts waiting for the disk, beside those of writes, before more are refused: a second
or two of it."""
STATEMENT_ROWS_MAX = 250
"""Rows of one multi-row INSERT: the gain is flat above, and 32,766 variables are the limit."""
TOMBSTONE_DAYS = 7
"""How long a deletion is remembered so that a late older write cannot undo it: longer than a bridge
is out, as long as the log is kept by default."""
TOMBSTONE_DAYS_FORGOTTEN = 400
"""Days before these whose tombstones a sweep removes: a server may have been off for a year."""
STAMP_AHEAD_SECONDS_MAX = 60
"""A writer's clock may be this far ahead; further, its record could not be changed for long."""
CLOCK_LEAD_SECONDS_MAX = STAMP_AHEAD_SECONDS_MAX
"""Versions may be this far ahead of the wall clock, and a smaller leap of it is none: what a stamp
may be ahead, so that no bridge is refused and no stamp is taken that does not count."""
CLOCK_BELIEVED_SECONDS = 60
"""How long a leap of the wall clock must last before it is believed: time servers mend a wrong
clock sooner, and what expires is that late at most when the leap was right."""
ORIGIN_CHARS_MAX = 64
"""The name of where a write comes from; it stands in every such event."""
SEQ_RESERVE = 100_000
"""Sequence numbers reserved on disk at a time; a crash skips at most these."""
RECORD_CACHE_RECORDS_MAX = 100_000
"""Current records kept in memory for hot reads."""

# Values and queries ------------------------------------------------------------------------------
PROBLEMS_MAX = 20
"""Wrong values told in one refusal: enough to mend a record, too few to fill a reason string."""
DECIMAL_DIGITS_MAX = 34
"""Digits of a Decimal: those of IEEE 754 decimal128."""
DECIMAL_EXPONENT_MAX = 6_144
"""Power of ten of a Decimal, either way: that of decimal128; more would make huge integers."""
DECIMAL_TEXT_CHARS_MAX = 100
"""A Decimal as text: far above 34 digits, a sign and an exponent; checked before reading it."""
QUERY_TEXT_CHARS_MAX = 8_192
"""A query string: what browsers and proxies commonly let through."""
QUERY_CONDITIONS_MAX = 100
"""Comparisons in one query, counting each value of ``=in=``: they are terms of one statement."""
QUERY_DEPTH_MAX = 16
"""Groups within groups, and keys within keys: no reader needs more, and SQL parsers recurse."""
QUERY_SORT_KEYS_MAX = 8
"""Keys of one order; each is compared for each record."""
QUERY_SELECT_PATHS_MAX = 100
"""Parts selected of each record."""
QUERY_LIMIT_RECORDS_MAX = 1_000_000_000
"""Largest number in ``limit(...)``: keeps offset and limit well inside 64 bits."""

# Codecs ------------------------------------------------------------------------------------------
DECODE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes decoded at once, whatever an edge was configured to take: values cost several times their
bytes in memory."""
VALUE_PARTS_MAX = 100_000
"""Items of lists and members of maps in one value: a fifth of a second to read at the worst, and
some 10 MB; two megabytes of the smallest parts would stop all others for seconds."""
ROWS_PARTS_MAX = 500_000
"""The same in one batch: 10,000 records of 50 attributes."""
PROBLEM_NAMES_MAX = 10
"""Names from a stranger's payload in one sentence."""
DECODE_POSITION_BYTES_MAX = 16_384
"""A malformed binary payload up to this size is read again to find the offset of the fault; above,
a stranger's mistake would cost more than it is worth."""
MEDIA_HEADER_CHARS_MAX = 2_048
"""An ``Accept`` or ``Content-Type`` value: ten times what browsers send; bounds parsing and
cache."""
MEDIA_HEADER_CACHE_ENTRIES_MAX = 512
"""Parsed ``Accept`` and ``Content-Type`` values remembered: clients send a handful of spellings."""
ROWS_BUFFER_BYTES_MAX = 16 * 1024 * 1024
"""MessagePack rows held back when their count is not known; other formats stream without a
buffer."""

# Store connections and statements -----------------------------------------------------------------
STORE_READERS_MAX = 5
"""Connections that read at once: as many as threads that call, so none ever waits for one."""
STORE_READER_WAIT_SECONDS = 30
"""Wait for a free read connection; only a reader that never ends makes it pass."""
STORE_BUSY_SECONDS = 5
"""Wait for another program's lock on the database file, such as a backup's, before BUSY."""
STATEMENT_VARIABLES_MAX = 32_766
"""Values bound in one statement (SQLITE_MAX_VARIABLE_NUMBER's default since 3.32)."""
STATEMENT_CACHE_STATEMENTS_MAX = 512
"""Prepared statements kept by each connection: a few sizes of a few statements for each table."""
STORE_JOURNAL_BYTES_MAX = 64 * 1024 * 1024
"""The write-ahead log is cut to this size after a checkpoint; a long reader may let it grow
beyond."""
STORE_PAGE_CACHE_BYTES_MAX = 16 * 1024 * 1024
"""Database pages in memory, for each connection: upper levels of the trees stay there."""
SCAN_SIFT_MISSES = 16
"""Topics in a row that a scan looks at in vain, with nothing to skip, before it sifts in SQL."""
SCAN_SIFT_ROWS = 512
"""Rows sifted in one statement: in a wide branch they are looked at for nothing, about 0.1 ms."""
STORE_MERGED_PARTS_MAX = 16
"""Parts of the log that are read side by side; more are sifted from the whole log."""
STORE_VIEWS_AT_ONCE_MAX = 64
"""Views of topic tables up to which each is made with its table: each change costs every
connection about 20 microseconds for each view."""
STORE_VIEWS_MAX = 1_000
"""Views of topic tables in all: more would cost a change of the schema tens of milliseconds."""
STORE_VIEW_CHANGES_MAX = 50
"""Views made in one transaction: about ten milliseconds of the writer thread."""
STORE_FORMER_BRANCHES_MAX = 10_000
"""Branches of which is known up to where their dropped tables' events are gone, about 2 MB; the
oldest are then known together, so that a reader may start anew where nothing of its was lost."""
SCAN_BRANCH_SAMPLE_ROWS = 64
"""Keys that a scan looks at to see what the tree is like: some twenty microseconds."""
SCAN_BRANCH_SAMPLE_MAX = 8
"""Branches among them up to which two seeks for each are quicker than a look at every row."""
STORE_WORKING_ROWS_MAX = 1_000
"""Rows changed in one step when a schema change moves values; bounds memory, not the
transaction."""

# History ------------------------------------------------------------------------------------------
HISTORY_PAGE_EVENTS = 1_000
"""Events of the log read and encoded at a time for an answer: some milliseconds of the loop."""
HISTORY_PAGE_BYTES = 1024 * 1024
"""Bytes of payload that such a page is to have: after large ones the next has fewer events."""
HISTORY_FIRST_EVENTS = 50
"""Events of the first page, when it is not known how large they are."""
HISTORY_WHOLE_EVENTS_MAX = 10_000
"""Events that ``last`` and ``limit`` may ask for: they are in memory together."""
HISTORY_WHOLE_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of their payloads."""
HISTORY_BUCKET_MS_MAX = 36_500 * 86_400_000
"""Length of one bucket: a hundred years, so that its end is a date."""
HISTORY_CHANGED_RECORDS_MAX = 100_000
"""Records that changed since the moment that a table is read as of: their topics are in memory."""
HISTORY_BUCKETS_MAX = 50_000
"""Buckets of one answer, for each topic and attribute: some 20 MB, and more points than a chart
has."""

# Kernel -------------------------------------------------------------------------------------------
STREAM_ITEMS_MAX = 256
"""Messages held for one end of a custom resource's stream: a person's or a device's pace, with
room."""
CURSORS_IN_CONDITION_MAX = 64
"""Versions named in one If-Match: more is not a client that read a record."""
NEW_ID_ATTEMPTS_MAX = 8
"""Tries to find a free id for a new record before BUSY; one is enough but for a race."""
SWEEP_EVENTS_MAX = 2_000
"""Events forgotten in one step of retention: about ten milliseconds of the writer thread."""
SWEEP_RECORDS_MAX = 1_000
"""Expired records removed in one step."""
SYSTEM_ROWS_MAX = 1_000
"""Rows of the server's own in one answer: a person reads them, or a tool that asks again."""
SYSTEM_ROWS_SLICE = 25
"""Of those, made before others get a turn of the loop: a millisecond or two."""
SYSTEM_ROW_ITEMS_MAX = 1_000
"""Items of a list within one such row: what is in flight may be 65,535 messages."""
SYSTEM_ROW_ITEMS_LISTED_MAX = 20
"""The same where many rows are listed."""
SYSTEM_ROW_TEXT_CHARS_MAX = 256
"""Of a payload in such a list: a person sees what it is, and one row has the whole of it."""
RETAINED_ROWS_LOOKED_MAX = 100_000
"""Retained messages that one search looks at: a second or two of it."""
DELAY_SECONDS_MAX = 4_294_967
"""Longest delay of a message, seven weeks: as in EMQX, whose clients know it."""
DELAYED_EVENTS_MAX = 100_000
"""Delayed messages at a time; each is in memory, and a fact on disk."""
DELAYED_BYTES_MAX = 64 * 1024 * 1024
"""The same in bytes, as they are written."""
DELAYED_TURN_EVENTS = 500
"""Delayed messages published before others get a turn of the loop."""
DELAYED_RETRY_SECONDS = 1
"""Until a delayed message that the disk refused is tried again."""
DELAYED_TIMER_SECONDS_MAX = 60
"""Longest wait for the next delayed message before looking again: a clock may be set meanwhile."""
SCHEDULES_MAX = 1_000
"""Scheduled functions of one server: each is looked at whenever one of them is due."""
SCHEDULE_SECONDS_MIN = 1
"""Shortest period of a schedule: each call costs a fact on the disk."""
SCHEDULE_LOOK_SECONDS_MAX = 60
"""Longest wait for the next schedule before looking again: a clock may be set meanwhile."""

# Hooks --------------------------------------------------------------------------------------------
HOOK_SLOW_SECONDS = 0.05
"""A call of a hook that takes longer is counted and shown by name (G22): all clients wait
for a plain one."""
HOOK_SECONDS_MAX = 5
"""Wait for one answer of an asynchronous hook: a slow database answers, a dead one does not."""
HOOK_LOG_SECONDS = 10
"""Between two complaints about the same hook: one that fails with each message fills no disk."""
HOOK_WRITES_MAX = 1_000
"""Writes of one caller that wait for an asynchronous hook: as many as an MQTT client may have
open."""
HOOK_CALLERS_MAX = 4_096
"""Callers that one bundled hook remembers; the one longest unheard of makes room."""
ACL_ANSWERS_MAX = 1_024
"""Topics of one caller for which the access list remembers its answer; cleared when full."""
HOOK_RECORDS_MAX = 10_000
"""Retained values that a hook gives at once: they are in memory together."""
HOOK_NOTICES_MAX = 1_000
"""Notices that wait for one asynchronous listener: a burst of connections, no more."""
GROUP_AHEAD_EVENTS_MAX = 32
"""Events that one member of a group holds and has not completed: a slow one delays no more, and a
quick one has enough for a round trip."""
GROUP_TURN_EVENTS = 1_024
"""Events that a group deals before others get a turn of the loop."""
GROUP_SAVE_SECONDS = 0.5
"""Until a group's place is on disk: what a kill of the server deals again at most."""
GROUP_RETRY_SECONDS = 1
"""Until a group that could not read the log tries again."""

# MQTT codec ---------------------------------------------------------------------------------------
MQTT_PACKET_BYTES_MAX = 2 * 1024 * 1024
"""One whole packet, judged when its length is known (D58: 2 MB); also bounds what waits in
a connection for the rest of a packet."""
TOPIC_CACHED_BYTES_MAX = 256
"""Longer topics are not remembered by their bytes: bounds that cache in bytes, not only entries."""
MQTT_FILTERS_MAX = 16_384
"""Topic filters in one SUBSCRIBE or UNSUBSCRIBE: 2 MB of them would take a second."""
MQTT_PROPERTIES_MAX = 4_096
"""Properties in one packet, nearly all of them user properties: a few milliseconds of reading."""
MQTT_ALIASES_SENT_MAX = 32
"""Topic Aliases that are used towards one client, however many it keeps: the topics of a busy
client, and a few kilobytes for one that announces 65,535."""
MQTT_ALIAS_IDLE_FACTOR = 4
"""Messages, for each alias, that must pass before a topic loses its alias to another."""

# Broker -------------------------------------------------------------------------------------------
MQTT_CONNECT_TIMEOUT_SECONDS = 10
"""From the connection to a whole CONNECT (D7)."""
MQTT_RECEIVE_MAXIMUM = 1_000
"""QoS 1 publishes of one client that wait for the disk: a full group commit, no more."""
MQTT_TOPIC_ALIAS_MAXIMUM = 32
"""Topics that one client may abbreviate; each costs a dictionary entry for the connection's
life."""
MQTT_SUBSCRIPTIONS_MAX = 10_000
"""Filters of one client; a stranger's filters cost memory on the server."""
MQTT_SUBSCRIBE_TURN_FILTERS = 200
"""Filters that one client begins before others get a turn of the loop: some milliseconds."""
MQTT_FLUSH_EVENTS = 1_024
"""Messages encoded for one client before others get a turn of the loop."""
MQTT_WRITE_BUFFER_BYTES_HIGH = 256 * 1024
"""Bytes waiting in a client's socket before it is written to no more: memory of a stopped
reader."""
MQTT_STALL_SECONDS = 60
"""A client whose full socket takes no byte for so long is cut off, or it would hold its memory for
good."""
MQTT_PROGRESS_BYTES = 1_000
"""A read of this size is a sign of life in the middle of a packet: a large message over a slow link
is not silence, a byte a second is."""
MQTT_REASON_CHARS_MAX = 1_000
"""Longest reason string: a person reads it, and it may hold what a stranger sent."""
MQTT_KEEP_ALIVE_FACTOR = 1.5
"""A client is gone after one and a half times its Keep Alive (MQTT-3.1.2-22)."""
SESSION_SAVE_SECONDS = 0.5
"""Until a durable session's place and QoS 1 flights are on disk: what a kill of the server repeats
at most."""
SESSION_REFRESH_SECONDS = 600
"""How often the place of a connected session is saved although nothing came for it: far less than
any retention of the log, or a restart would find it forgotten."""
WILL_RETRY_SECONDS = 0.5
"""Until a will that the disk refused is published again: the disk may have room by then."""
SESSIONS_MAX = 1_000_000
"""Sessions, connected or not: a stranger's client ids cost 2 KB each until they expire."""
SESSIONS_SKIPPED_MAX = 1_000
"""Departures of sessions that are no longer true and wait for their time, beside two for each
session: a client that comes and goes all the time must not fill the memory."""
SESSION_QUEUE_EVENTS_MAX = 1_000_000
"""Largest ``mqtt.max_session_queue``: one number of each is held while they are counted."""
SESSION_TIMER_SECONDS_MAX = 3_600
"""Longest wait for the end of a session before looking again: a clock may be set meanwhile."""
MQTT_HELD_PACKETS_MAX = 1_024
"""Packets that came before CONNACK and wait for it, before no more are read."""
MQTT_CLOSE_SECONDS = 5
"""From the last packet of a connection to cutting it, when the peer does not take it."""

# Guard of the broker ------------------------------------------------------------------------------
RATE_BURST_SECONDS = 1
"""How much of a rate may come at once: what a client saved up while it was silent."""
GUARD_ENTRIES_MAX = 16_384
"""Peers and client ids remembered for each purpose: some megabytes, however many strangers call."""
GUARD_KNOWN_SECONDS = 7 * 24 * 3600
"""An address from which somebody signed in is known for it so long: who comes every week."""
GUARD_NAME_CHARS_MAX = 128
"""Of a longer client id only its beginning and a digest are remembered: an id may have 64 KiB."""
BAN_PEER_FACTOR = 10
"""A peer is banned for so many times the offences of one client id: a site shares an address."""
REFUSED_CONNECTIONS_MAX = 256
"""Connections that are being told why they are refused; any more are closed without a word."""
REFUSED_SECONDS = 2
"""What one of them has to say CONNECT, take the answer and go."""
REFUSED_PACKET_BYTES_MAX = 4 * 1024
"""The CONNECT that is read from one of them: 1 MB for all; longer ones get no answer."""
TCP_PROBE_SECONDS = 10
"""Between two probes of a silent peer that has not answered the first."""
TCP_PROBES = 4
"""Probes without an answer after which a peer is gone: a lost packet or two is no death."""
REWRITE_RULES_MAX = 100
"""Rules for rewriting topics: each is looked at for every publish and every filter."""
REWRITE_EXPRESSION_CHARS_MAX = 500
"""A regular expression over topics, written by a person."""
REWRITE_REPEATS_MAX = 4
"""Repetitions in one expression: with REWRITE_TOPIC_CHARS_MAX it bounds how long it may try."""
REWRITE_TOPIC_CHARS_MAX = 256
"""A topic or filter that an expression is tried on; longer ones that a rule selects are refused."""
AUTO_SUBSCRIPTIONS_MAX = 100
"""Filters that every client is subscribed to when it connects."""

# Command line -------------------------------------------------------------------------------------
CLIENT_ANSWER_SECONDS = 30
"""Wait for an answer of a server: longer than any commit, shorter than a person's patience."""
CLIENT_SILENCE_SECONDS = 45
"""Silence of a stream after which it is held for dead: three of its heartbeats."""
CLIENT_EVENT_BYTES_MAX = 64 * 1024 * 1024
"""One line of a stream: above what a server encodes from the largest payload (DECODE_BYTES_MAX)."""
CLIENT_CONNECTIONS_MAX = 1000
"""Connections of one client: each of its subscriptions has one."""
RECONNECT_SECONDS_MIN = 0.5
"""Pause before the first try to reconnect, to which as much again is added at random."""
RECONNECT_SECONDS_MAX = 30
"""Longest pause between two tries; it doubles up to here."""

# Configuration ------------------------------------------------------------------------------------
CONFIG_DEPTH_MAX = 32
"""Nesting of values in a file of settings: none has more than a handful."""
CONFIG_NODES_MAX = 100_000
"""Values in it, with those that references repeat: thousands of rules."""
CONFIG_NUMBER_MAX = 10**15
"""Largest number of things or bytes: sums of them stay within 64 bits."""
CONFIG_SECONDS_MAX = 10 * 365 * 86_400
"""Longest wait: ten years; timers of the loop take no number beyond 64 bits."""
CONFIG_SHOWN_CHARS_MAX = 200
"""Of a wrong value in the sentence about it."""

# Schema ------------------------------------------------------------------------------------------
SCHEMA_CHARS_MAX = 4 * 1024 * 1024
"""A schema file: thousands of tables; a file beyond is not a schema."""
NESTED_TYPES_DEPTH_MAX = 16
"""Nested types and lists within one attribute: checking a value recurses as deep."""
IDENTIFIER_CHARS_MAX = 63
"""Names of tables, attributes and databases: PostgreSQL cuts longer ones."""
SCHEMA_PROBLEMS_MAX = 100
"""Problems of a schema told at once."""

# Memory -------------------------------------------------------------------------------------------
COLLECTOR_YOUNG_OBJECTS = 5_000
"""New containers before the collector looks at them: a page of messages is gone by then, a look
takes a millisecond. Python's 700 would keep them, and look at all there is again and again."""
COLLECTOR_YOUNG_ROUNDS = 5
"""Such looks before what they left is looked at again: some milliseconds."""
COLLECTOR_MIDDLE_ROUNDS = 50
"""Those before all there is may be looked at, a third of a second with 100,000 records in memory:
once for each million containers that stayed."""

# Starting and stopping ----------------------------------------------------------------------------
SHUTDOWN_SECONDS_MAX = 5
"""From the signal to cutting what has not ended by itself."""

# Streams: SSE and WebSocket -----------------------------------------------------------------------
SUBSCRIPTION_TOPICS_CACHED_MAX = 1_024
"""Topics whose matching filters one subscription of several filters remembers; cleared when
full."""
STREAM_BATCH_EVENTS_MAX = 256
"""Events joined into one send: enough to cost one system call for a burst, little beside a
buffer."""
SUBSCRIPTION_TAKE_BYTES_MAX = 256 * 1024
"""Payload bytes handed over at once: bounds what one slow reader holds beside its queue."""
STREAM_SEND_SECONDS = 30
"""A reader that takes nothing for so long is cut off; it can resume where it was."""
STREAM_LEAVE_SECONDS = 30
"""So long an event stream that was cut off keeps what was written for its reader, which may read on
and find why it ended: no more than a buffer of its connection, and its place among them."""
STREAM_END_SECONDS = 0.5
"""What a resource has to end by itself after its client left, before it is cancelled (C6)."""
STREAM_WATCH_SECONDS = 5
"""How often streams are looked after: heartbeats and stopped readers need no finer clock."""
STREAM_RETRY_SPREAD = 4
"""Clients come back within so many times their wait: with two seconds, 13 % in any one."""
STREAM_FILTERS_MAX = 100
"""Filters in the URL of one stream; a WebSocket may subscribe to more, one after the other."""
STREAM_PREVIOUS_EVENTS_MAX = 1_000
"""Logged events that ``previousCount`` may ask for: more is a query, not the start of a stream."""
STREAM_LAST_NUMBERS_MAX = 1_000_000
"""How far back the last event of a filter with wildcards is looked for: seconds of one thread."""
SOCKET_SUBSCRIPTIONS_MAX = 1_000
"""Filters of one WebSocket; a stranger's filters cost memory on the server."""
SOCKET_PENDING_COMMANDS_MAX = 256
"""Commands of one WebSocket that wait for the disk or for its reader, before no more are read."""
SOCKET_REASON_BYTES_MAX = 123
"""The text of a close frame: 125 bytes less the code (RFC 6455, 5.5)."""
COMMAND_ID_CHARS_MAX = 64
"""A command's own id; it comes back with the answer."""

# HTTP ---------------------------------------------------------------------------------------------
HTTP_BODY_SECONDS_MAX = 60
"""From a request's head to the end of its body: 2 MB at a poor uplink's pace."""
HTTP_CALLERS_MAX = 4_096
"""Peer addresses whose caller is remembered between requests; cleared when full."""
HTTP_PAGE_RECORDS = 500
"""Records of a collection read and encoded at a time: a few milliseconds of the event loop."""
HTTP_PAGE_SORTED_RECORDS = 4_000
"""Records read at a time in an order of their own: without an index, each page sorts the table."""
HTTP_LIMIT_LINKED_RECORDS_MAX = 10_000
"""Records of one page that is answered with a link to the next: they are in memory at once."""
HTTP_BATCH_RECORDS_MAX = 10_000
"""Records in one batch: a fifth of what may wait for the disk."""
HTTP_REPRESENTATIONS_MAX = 16
"""Encoded forms kept on one record, those of other doors included: every real client's Accept, and
no memory for invented ones."""
HTTP_DIRECT_BYTES_MAX = 16 * 1024
"""Larger bodies are not kept as a whole answer too: two writes are nothing beside copying them."""
HTTP_PROPERTY_DEPTH_MAX = 4
"""Dots of a path that are tried as the start of a property: each may cost a read."""
CORS_PREFLIGHT_SECONDS = 600
"""How long a browser remembers that it may call: as long as browsers commonly do."""
START_POLL_SECONDS = 0.001
"""Between two looks whether HTTP accepts connections; it takes a few."""
HTTP_HEAD_SECONDS_MAX = 20
"""From a new connection, or a request's first byte, to the end of its headers; browsers open
connections ahead of need and keep them that long."""
HTTP_HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers: four times what browsers and proxies send at most."""
