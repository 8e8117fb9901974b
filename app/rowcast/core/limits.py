"""General bounds, of topics, packets and connections: value, unit (last in the name) and reason.

Those of one subject are in a module beside this one that is named for it, such as
``memory_limits.py``. Every queue, buffer, retry and timeout must have a named bound
(tests/test_tidy.py). Values that an operator may change are defaults of ``program/settings/``.
"""

from typing import Final

# Topics and values ------------------------------------------------------------------------------
TOPIC_BYTES_MAX: Final = 65_535
"""A topic is an MQTT UTF-8 string: two length bytes (MQTT 5, 1.5.4)."""
TOPIC_LEVELS_MAX: Final = 128
"""Deep enough for every real tree; bounds recursion and trie depth for untrusted filters."""
VALUE_DEPTH_MAX: Final = 64
"""Nesting of lists and maps in one value; far below the recursion limit of codecs."""
ANSWER_DEPTH_MAX: Final = VALUE_DEPTH_MAX + 8
"""The same in what wraps values: a list of events or rows (2), with related records, each in a list
and a record for three relationships (6). Else one value of full depth would make all unreadable."""
PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
"""One body or payload (D58: 2 MB)."""

# Bus and subscriptions --------------------------------------------------------------------------
SUBSCRIPTION_QUEUE_EVENTS_MAX: Final = 8_192
"""More than one socket read (256 KiB) of small publishes, so a healthy reader never falls behind
within one turn of the loop; a slow one continues from the log at this point."""
SUBSCRIPTION_QUEUE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Memory that one stopped reader can occupy."""
COMMIT_LOOK_SECONDS: Final = 0.01
"""After which it is looked whether the rest of a transaction, or what a reader was shown of the
log already, is announced: that takes one turn of the loop, or a read of the tables."""
COMMIT_LOOKS_MAX: Final = 100
"""How often: for a second, after which the mark waits for the reader's next event."""
GAP_MARKS_TOGETHER_MAX: Final = 8
"""Consecutive gap marks of different interests in a full queue; one more counts for all."""
DEADLINE_SECONDS_MIN: Final = 0.1
"""The shortest deadline: a shorter one could be missed because of the server's own scheduling."""
DEADLINE_RECORDS_MAX: Final = 1_000_000
"""Records with a pending deadline: some 200 MB with their topics."""
DEADLINE_LOOKS_PER_TURN: Final = 256
"""Pending deadlines checked in one turn of the loop: a millisecond."""
DEADLINE_RETRY_SECONDS: Final = 1.0
"""Retry delay for publishing a late record after the disk refused."""
DEADLINE_TIMER_SECONDS_MAX: Final = 60.0
"""The longest timer for a deadline: a changed wall clock is noticed by then."""
LOG_PAGE_EVENTS: Final = 512
"""Events read from the log at a time during catch-up: a few hundred microseconds."""
LOG_CACHE_EVENTS_MAX: Final = 16_384
"""Events in the cache of log pages, so that sessions that reconnect together read them once:
thirty-two pages, some 8 MB with small payloads."""
LOG_CACHE_PAGES_MAX: Final = 64
"""Pages in this cache, some of them short: a lookup scans all of them."""
SCAN_PAGE_RECORDS: Final = 1_000
"""Records read at a time for a snapshot: one statement, so such a table is seen at one instant."""
SCAN_PAGE_BYTES: Final = 1024 * 1024
"""Payload bytes read at a time for a snapshot, and one record: without it a page of a hundred
retained messages could be a hundred megabytes for one subscriber."""
SCANS_TOGETHER_MAX: Final = 64
"""Filters whose current records one job of a reader thread scans: it amortises the thread switch,
and takes about a millisecond of that thread and of the loop."""
RETAINED_PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""A retained message at an undeclared topic: 1 MB, half of the largest body."""
RETAINED_PAGE_RECORDS: Final = 100
"""Retained messages read at a time for one subscriber: a millisecond of the loop, so that others
are not delayed (E21), and one page in memory."""
SERVERS_OWN_RECORDS_MAX: Final = 10_000
"""The server's own records below $SYS: some dozens, and those of single components."""
RETAINED_DELIVERY_RATE: Final = 10_000
"""Retained messages to one subscriber per second: a tenth of a core, so that a subscriber to all
stalls no publisher."""
RETAINED_BURST_RECORDS: Final = 1_000
"""The burst of this rate: most subscribers receive fewer, and are not delayed."""
ROW_SLICE_EVENTS: Final = 500
"""Events of the log converted to rows at a time, on a reader thread: a few milliseconds."""
ROW_PAGE_ROWS_MAX: Final = 10_000
"""Rows of a topic table in memory at once, for a reader without a limit."""
ROW_SORTED_ROWS_MAX: Final = 50_000
"""Rows of a topic table sorted in an order that the log does not have: about two seconds."""
MATCH_CACHE_TOPICS_MAX: Final = 131_072
"""Cached topics with their subscribers (bus) or route (kernel); cleared when full."""

# Store ------------------------------------------------------------------------------------------
COMMIT_BATCH_EVENTS_MAX: Final = 2_000
"""Writes in one transaction: keeps a commit near 10 ms, so acknowledgements keep flowing."""
COMMIT_LOOP_WRITES_MAX: Final = 1_000
"""Writes of one batch decided on the event loop: some milliseconds, as a long read takes."""
BULK_WRITES_MIN: Final = 500
"""Writes of one atomic batch that are a load rather than news: a listing's page has fewer."""
COMMIT_BACKLOG_EVENTS_MAX: Final = 50_000
"""Writes waiting for the disk before new ones are refused with BUSY."""
COMMIT_BACKLOG_EVENTS_HIGH: Final = 10_000
"""Writes waiting above which reading from publishing connections pauses."""
COMMIT_BACKLOG_CHANGES_MAX: Final = 100_000
"""Changes of facts waiting for the disk, besides those of writes, before more are refused: one or
two seconds of writing."""
STATEMENT_ROWS_MAX: Final = 250
"""Rows of one multi-row INSERT: more gain nothing, and 32,766 variables are the limit."""
PRESENT_KEYS_MAX: Final = 16_384
"""Keys of each table that its writer knows to have a row, so that it need not ask: 2 MB."""
TOMBSTONE_DAYS: Final = 7
"""Lifetime of a tombstone, which prevents a late older write from undoing a deletion: longer than a
bridge's outage, as long as the log is kept by default."""
TOMBSTONE_DAYS_FORGOTTEN: Final = 400
"""Days before this age whose tombstones a sweep removes: a server may have been off for a year."""
STAMP_AHEAD_SECONDS_MAX: Final = 60
"""How far a writer's clock may be ahead; until then no later write can change its record."""
CLOCK_LEAD_SECONDS_MAX: Final = STAMP_AHEAD_SECONDS_MAX
"""How far versions may be ahead of the wall clock, and the smallest clock jump: equal to the bound
of stamps, so that every accepted stamp is valid and no bridge is refused."""
CLOCK_BELIEVED_SECONDS: Final = 60
"""How long a jump of the wall clock must last before it is accepted: time servers correct a wrong
clock sooner, and after a correct jump expiry is late by at most this."""
ORIGIN_CHARS_MAX: Final = 64
"""Length of a write's origin, which is stored in every such event."""
SEQ_RESERVE: Final = 100_000
"""Sequence numbers reserved on disk at a time; a crash skips at most so many."""

# Values and queries ------------------------------------------------------------------------------
PROBLEMS_MAX: Final = 20
"""Invalid values reported in one error: enough to correct a record, not to fill a reason string."""
DECIMAL_DIGITS_MAX: Final = 34
"""Digits of a Decimal: those of IEEE 754 decimal128."""
DECIMAL_EXPONENT_MAX: Final = 6_144
"""Power of ten of a Decimal, either way: that of decimal128; more would make huge integers."""
DECIMAL_TEXT_CHARS_MAX: Final = 100
"""A Decimal as text: far above 34 digits, a sign and an exponent; checked before reading it."""
QUERY_TEXT_CHARS_MAX: Final = 8_192
"""A query string: what browsers and proxies commonly allow."""
QUERY_CONDITIONS_MAX: Final = 100
"""Comparisons in one query, counting each value of ``=in=``: they are terms of one statement."""
QUERY_DEPTH_MAX: Final = 16
"""Groups within groups, and keys within keys: no reader needs more, and SQL parsers recurse."""
QUERY_SORT_KEYS_MAX: Final = 8
"""Sort keys; each is compared for each record."""
QUERY_SELECT_PATHS_MAX: Final = 100
"""Parts selected of each record."""
QUERY_LIMIT_RECORDS_MAX: Final = 1_000_000_000
"""Largest number in ``limit(...)``: keeps offset plus limit within 64 bits."""

# Codecs ------------------------------------------------------------------------------------------
DECODE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes decoded at once, whatever a door is configured to accept: values take several times their
bytes in memory."""
VALUE_PARTS_MAX: Final = 100_000
"""Items of lists and members of maps in one value: at worst a fifth of a second to decode, and some
10 MB; two megabytes of the smallest parts would block the loop for seconds."""
ROWS_PARTS_MAX: Final = 500_000
"""The same in one batch: 10,000 records of 50 attributes."""
PROBLEM_NAMES_MAX: Final = 10
"""Names from an untrusted payload in one message."""
DECODE_POSITION_BYTES_MAX: Final = 16_384
"""A malformed binary payload up to this size is decoded again to find the offset of the error;
above, that would cost too much."""
MEDIA_HEADER_CHARS_MAX: Final = 2_048
"""An ``Accept`` or ``Content-Type`` value: ten times what browsers send; bounds cached bytes."""
MEDIA_HEADER_CACHE_ENTRIES_MAX: Final = 512
"""Cached ``Accept`` and ``Content-Type`` values: clients send a handful of spellings."""
ROWS_BUFFER_BYTES_MAX: Final = 16 * 1024 * 1024
"""MessagePack rows buffered when their count is unknown; other formats stream without a buffer."""

# Store connections and statements -----------------------------------------------------------------
STORE_READERS_MAX: Final = 5
"""Read connections: as many as reader threads, so none waits for one."""
STORE_READER_WAIT_SECONDS: Final = 30
"""Wait for a free read connection; only expires if a reader hangs."""
STORE_BUSY_SECONDS: Final = 5
"""Wait for another program's lock on the database file, such as a backup's, before BUSY."""
STATEMENT_VARIABLES_MAX: Final = 32_766
"""Values bound in one statement (SQLITE_MAX_VARIABLE_NUMBER's default since 3.32)."""
STATEMENT_CACHE_STATEMENTS_MAX: Final = 512
"""Prepared statements kept by each connection: a few sizes of a few statements for each table."""
STORE_JOURNAL_BYTES_MAX: Final = 64 * 1024 * 1024
"""The write-ahead log is truncated to this size after a checkpoint; a long read may exceed it."""
STORE_PAGE_CACHE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Page cache of each connection: the upper levels of the B-trees stay in it."""
SCAN_SIFT_MISSES: Final = 16
"""Consecutive topics without a match or a possible skip, after which a scan filters in SQL."""
SCAN_SIFT_ROWS: Final = 512
"""Rows filtered in one statement: in a wide branch without matches about 0.1 ms are wasted."""
STORE_MERGED_PARTS_MAX: Final = 16
"""Parts of the log that are merged in a read; more are filtered from the complete log."""
STORE_VIEWS_AT_ONCE_MAX: Final = 64
"""Views of topic tables up to which each is created with its table: each schema change costs every
connection about 20 microseconds per view."""
STORE_VIEWS_MAX: Final = 1_000
"""Views of topic tables in all: more would cost a change of the schema tens of milliseconds."""
STORE_VIEW_CHANGES_MAX: Final = 50
"""Views created in one transaction: about ten milliseconds of the writer thread."""
STORE_FORMER_BRANCHES_MAX: Final = 10_000
"""Branches with a recorded position up to which the events of their dropped tables were removed,
about 2 MB; the oldest share one position, so a reader may have to start over although it lost
nothing."""
SCAN_BRANCH_SAMPLE_ROWS: Final = 64
"""Keys that a scan samples to choose its strategy: some twenty microseconds."""
SCAN_BRANCH_SAMPLE_MAX: Final = 8
"""Branches in the sample up to which two seeks for each are faster than reading every row."""
STORE_WORKING_ROWS_MAX: Final = 1_000
"""Rows changed in one step of a migration; bounds memory, not the transaction."""

# History ------------------------------------------------------------------------------------------
HISTORY_PAGE_EVENTS: Final = 1_000
"""Events of the log read and encoded at a time for an answer: some milliseconds of the loop."""
HISTORY_PAGE_BYTES: Final = 1024 * 1024
"""Target payload bytes of such a page: after large events the next page has fewer."""
HISTORY_FIRST_EVENTS: Final = 50
"""Events of the first page, when their size is unknown."""
HISTORY_WHOLE_EVENTS_MAX: Final = 10_000
"""Largest ``last`` and ``limit``: these events are in memory together."""
HISTORY_WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of their payloads."""
HISTORY_BUCKET_MS_MAX: Final = 36_500 * 86_400_000
"""Length of one bucket: a hundred years, so that its end is a date."""
HISTORY_CHANGED_RECORDS_MAX: Final = 100_000
"""Records changed since the time of an as-of read: their topics are in memory."""
HISTORY_BUCKETS_MAX: Final = 50_000
"""Buckets of one answer, for each topic and attribute: some 20 MB, and more points than a chart
has."""

# Kernel -------------------------------------------------------------------------------------------
STREAM_ITEMS_MAX: Final = 256
"""Messages buffered in each direction of a custom resource's stream: enough for a person's or a
device's pace."""
CURSORS_IN_CONDITION_MAX: Final = 64
"""Versions in one If-Match: no real client sends more."""
NEW_ID_ATTEMPTS_MAX: Final = 8
"""Attempts to find a free id for a new record before BUSY; only a race needs more than one."""
SWEEP_EVENTS_MAX: Final = 2_000
"""Events removed in one step of retention: about ten milliseconds of the writer thread."""
SWEEP_RECORDS_MAX: Final = 1_000
"""Expired records removed in one step."""
SYSTEM_ROWS_MAX: Final = 1_000
"""System rows in one response: for a person, or a tool that fetches the next page."""
SYSTEM_ROWS_SLICE: Final = 25
"""System rows built in one turn of the loop: one or two milliseconds."""
SYSTEM_ROW_ITEMS_MAX: Final = 1_000
"""Items of a list within one such row: there may be 65,535 messages in flight."""
SYSTEM_ROW_ITEMS_LISTED_MAX: Final = 20
"""The same where many rows are listed."""
SYSTEM_ROW_TEXT_CHARS_MAX: Final = 256
"""Length of a payload in such a list: enough to recognise it; its own row has all of it."""
RETAINED_ROWS_LOOKED_MAX: Final = 100_000
"""Retained messages that one search examines: one or two seconds."""
DELAY_SECONDS_MAX: Final = 4_294_967
"""Longest delay of a message, seven weeks: as in EMQX, whose clients know it."""
DELAYED_EVENTS_MAX: Final = 100_000
"""Pending delayed messages; each is in memory, and a fact on disk."""
DELAYED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same in encoded bytes."""
DELAYED_TURN_EVENTS: Final = 500
"""Delayed messages published in one turn of the loop."""
DELAYED_RETRY_SECONDS: Final = 1
"""Retry delay for a delayed message that the disk refused."""
DELAYED_TIMER_SECONDS_MAX: Final = 60
"""Longest timer for the next delayed message: the clock may be changed meanwhile."""
SCHEDULES_MAX: Final = 1_000
"""Scheduled functions of one server: all are checked whenever one is due."""
SCHEDULE_SECONDS_MIN: Final = 1
"""Shortest period of a schedule: each call costs a fact on the disk."""
SCHEDULE_LOOK_SECONDS_MAX: Final = 60
"""Longest timer for the next schedule: the clock may be changed meanwhile."""

# Hooks --------------------------------------------------------------------------------------------
HOOK_SLOW_SECONDS: Final = 0.05
"""A hook's call that takes longer is counted and listed by name (G22): a synchronous one blocks all
clients."""
HOOK_SECONDS_MAX: Final = 5
"""Timeout of an asynchronous hook: longer than a slow database needs."""
HOOK_LOG_SECONDS: Final = 10
"""Interval between log lines about one hook: a hook that fails with each message must not fill the
disk."""
HOOK_WRITES_MAX: Final = 1_000
"""Writes of one caller that wait for an asynchronous hook: an MQTT client's maximum in flight."""
RESOURCE_WRITES_MAX: Final = 1_000
"""Writes of one connection at one topic that wait for a resource class: as for a hook."""
HOOK_CALLERS_MAX: Final = 4_096
"""Callers that one bundled hook remembers; the least recently active one is evicted."""
HOOK_RECORDS_MAX: Final = 10_000
"""Retained values that a hook returns at once: they are in memory together."""
HOOK_NOTICES_MAX: Final = 1_000
"""Notifications queued for one asynchronous listener: a burst of connections."""
GROUP_PREFETCH_EVENTS_MAX: Final = 32
"""Uncompleted events of one group member: bounds what a slow one delays, and is enough for a fast
one's round trip."""
GROUP_TURN_EVENTS: Final = 1_024
"""Events that a group assigns in one turn of the loop."""
GROUP_SAVE_SECONDS: Final = 0.5
"""Interval between saves of a group's position: a kill repeats at most that much."""
GROUP_RETRY_SECONDS: Final = 1
"""Retry delay of a group that could not read the log."""

# MQTT codec ---------------------------------------------------------------------------------------
MQTT_PACKET_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest packet, checked when its length is known (D58: 2 MB); also bounds the partial packet of a
connection."""
TOPIC_CACHED_BYTES_MAX: Final = 256
"""Longer topics are not cached by their bytes: bounds that cache in bytes, not only entries."""
MQTT_FILTERS_MAX: Final = 16_384
"""Topic filters in one SUBSCRIBE or UNSUBSCRIBE: 2 MB of them would take a second."""
MQTT_PROPERTIES_MAX: Final = 4_096
"""Properties in one packet, nearly all of them user properties: a few milliseconds to decode."""
MQTT_ALIASES_SENT_MAX: Final = 32
"""Topic Aliases used towards one client, whatever its maximum: the topics of a busy client, and a
few kilobytes for one that announces 65,535."""
MQTT_ALIAS_IDLE_FACTOR: Final = 4
"""Messages, per alias, after which an unused topic may lose its alias to another."""

# Broker -------------------------------------------------------------------------------------------
MQTT_CONNECT_TIMEOUT_SECONDS: Final = 10
"""From the connection to a complete CONNECT (D7)."""
MQTT_RECEIVE_MAXIMUM: Final = 1_024
"""QoS 1 and 2 publishes of one client that wait for the disk: one full group commit."""
MQTT_TOPIC_ALIAS_MAXIMUM: Final = 32
"""Topic aliases of one client; each costs a dictionary entry for the connection's lifetime."""
MQTT_SUBSCRIPTIONS_MAX: Final = 10_000
"""Filters of one client; each costs memory on the server."""
MQTT_FLUSH_EVENTS: Final = 1_024
"""Messages encoded for one client in one turn of the loop."""
MQTT_WRITE_BUFFER_BYTES_HIGH: Final = 256 * 1024
"""Bytes buffered in a client's socket above which writing pauses: memory of a stopped reader."""
MQTT_STALL_SECONDS: Final = 60
"""A client whose full socket accepts no byte for so long is disconnected, to free its memory."""
MQTT_PROGRESS_BYTES: Final = 1_000
"""A read of this size within a packet resets the keepalive timer: a large message over a slow link
counts as activity, a byte a second does not."""
MQTT_REASON_CHARS_MAX: Final = 1_000
"""Longest reason string: a person reads it, and it may contain untrusted text."""
MQTT_KEEP_ALIVE_FACTOR: Final = 1.5
"""A client is disconnected after 1.5 times its Keep Alive (MQTT-3.1.2-22)."""
SESSION_SAVE_SECONDS: Final = 0.5
"""Interval between saves of a durable session's position and QoS 1 flights: a kill repeats at most
that much."""
SESSION_REFRESH_SECONDS: Final = 600
"""Interval between saves of an idle session's position: far shorter than any retention of the log,
or after a restart its position would have been removed."""
WILL_RETRY_SECONDS: Final = 0.5
"""Retry delay for a will that the disk refused: there may be space by then."""
SESSIONS_MAX: Final = 1_000_000
"""Sessions, connected or not: each client id costs 2 KB until it expires."""
SESSIONS_SKIPPED_MAX: Final = 1_000
"""Obsolete expiry timers of sessions, besides two for each session: a client that reconnects all
the time must not fill the memory."""
SESSION_QUEUE_EVENTS_MAX: Final = 1_000_000
"""Largest ``mqtt.max_session_queue``: counting needs one number in memory per event."""
SESSION_TIMER_SECONDS_MAX: Final = 3_600
"""Longest timer for the expiry of a session: the clock may be changed meanwhile."""
MQTT_HELD_PACKETS_MAX: Final = 1_024
"""Packets that wait for CONNACK, above which reading pauses."""
MQTT_CLOSE_SECONDS: Final = 5
"""From the last packet of a connection to closing it, when the peer does not read."""

# Guard of the broker ------------------------------------------------------------------------------
RATE_BURST_SECONDS: Final = 1
"""The burst of a rate, in seconds of it: what an idle client accumulates."""
GUARD_ENTRIES_MAX: Final = 16_384
"""Peers and client ids remembered for each purpose: some megabytes, however many connect."""
GUARD_KNOWN_SECONDS: Final = 7 * 24 * 3600
"""How long an address is trusted after a sign-in: covers weekly users."""
GUARD_NAME_CHARS_MAX: Final = 128
"""A longer client id is shortened to its beginning and a digest: an id may have 64 KiB."""
BAN_PEER_FACTOR: Final = 10
"""A peer is banned after this multiple of the offences of a client id: a site shares an address."""
REFUSED_CONNECTIONS_MAX: Final = 256
"""Refused connections that get a CONNACK with the reason; further ones are closed silently."""
REFUSED_SECONDS: Final = 2
"""Time for one of them to send CONNECT, read the answer and close."""
REFUSED_PACKET_BYTES_MAX: Final = 4 * 1024
"""Largest CONNECT read from one of them: 1 MB for all; longer ones get no answer."""
TCP_PROBE_SECONDS: Final = 10
"""Interval between probes of a silent peer that has not answered the first."""
TCP_PROBES: Final = 4
"""Unanswered probes after which a peer is considered lost: tolerates a lost packet or two."""
REWRITE_RULES_MAX: Final = 100
"""Rules for rewriting topics: each is checked for every publish and every filter."""
REWRITE_EXPRESSION_CHARS_MAX: Final = 500
"""A regular expression over topics, written by a person."""
REWRITE_REPEATS_MAX: Final = 4
"""Repetitions in one expression: with REWRITE_TOPIC_CHARS_MAX it bounds backtracking."""
REWRITE_TOPIC_CHARS_MAX: Final = 256
"""Longest topic or filter matched with an expression; rules refuse longer ones."""
AUTO_SUBSCRIPTIONS_MAX: Final = 100
"""Filters of automatic subscriptions for each client."""

# Command line -------------------------------------------------------------------------------------
CLIENT_ANSWER_SECONDS: Final = 30
"""Timeout of a request: longer than any commit, short enough for a person to wait."""
CLIENT_SILENCE_SECONDS: Final = 45
"""Silence of a stream after which it is considered dead: three heartbeats."""
CLIENT_EVENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""One line of a stream: above the encoding of the largest payload (DECODE_BYTES_MAX)."""
CLIENT_CONNECTIONS_MAX: Final = 1000
"""Connections of one client: each of its subscriptions has one."""
RECONNECT_SECONDS_MIN: Final = 0.5
"""Delay before the first reconnect, plus random jitter of up to the same length."""
RECONNECT_SECONDS_MAX: Final = 30
"""Longest delay between reconnects; it doubles up to here."""

# Configuration ------------------------------------------------------------------------------------
CONFIG_DEPTH_MAX: Final = 32
"""Nesting of values in a configuration file: real ones have a handful."""
CONFIG_NODES_MAX: Final = 100_000
"""Values in it, counting repeated aliases: thousands of rules."""
CONFIG_NUMBER_MAX: Final = 10**15
"""Largest count or number of bytes: sums of them stay within 64 bits."""
CONFIG_SECONDS_MAX: Final = 10 * 365 * 86_400
"""Longest duration: ten years; timers of the loop are limited to 64 bits."""
CONFIG_SHOWN_CHARS_MAX: Final = 200
"""Length of an invalid value in its error message."""

# Schema ------------------------------------------------------------------------------------------
SCHEMA_CHARS_MAX: Final = 4 * 1024 * 1024
"""A schema file: thousands of tables; a larger file is no schema."""
NESTED_TYPES_DEPTH_MAX: Final = 16
"""Nested types and lists within one attribute: checking a value recurses to this depth."""
IDENTIFIER_CHARS_MAX: Final = 63
"""Names of tables, attributes and databases: PostgreSQL truncates longer ones."""
SCHEMA_PROBLEMS_MAX: Final = 100
"""Problems of a schema reported at once."""

# Starting and stopping ----------------------------------------------------------------------------
SHUTDOWN_SECONDS_MAX: Final = 5
"""From the signal to closing connections that have not closed by themselves."""

# Streams: SSE and WebSocket -----------------------------------------------------------------------
SUBSCRIPTION_TOPICS_CACHED_MAX: Final = 1_024
"""Cached topics with their matching filters, for a subscription of several filters; cleared when
full."""
STREAM_BATCH_EVENTS_MAX: Final = 64
"""Events joined into one send: one system call for a burst, encoded in half a millisecond."""
SUBSCRIPTION_TAKE_BYTES_MAX: Final = 256 * 1024
"""Payload bytes delivered at once: bounds the memory of one slow reader besides its queue."""
STREAM_SEND_SECONDS: Final = 30
"""A reader that reads nothing for so long is disconnected; it can resume at its cursor."""
STREAM_LEAVE_SECONDS: Final = 30
"""How long a closed event stream keeps its socket buffer, so that a slow reader can still read the
reason: costs one buffer, and one connection slot."""
STREAM_END_SECONDS: Final = 0.5
"""Time for a resource to finish after its client disconnected, before it is cancelled (C6)."""
STREAM_WATCH_SECONDS: Final = 5
"""Interval of checks of streams: heartbeats and stopped readers need no finer one."""
STREAM_RETRY_SPREAD: Final = 4
"""Clients reconnect within this multiple of their wait: with two seconds, 13 % within any one."""
STREAM_FILTERS_MAX: Final = 100
"""Filters in the URL of one stream; a WebSocket may subscribe to more, one after the other."""
STREAM_PREVIOUS_EVENTS_MAX: Final = 1_000
"""Largest ``previousCount``: more is a query, not the start of a stream."""
STREAM_LAST_NUMBERS_MAX: Final = 1_000_000
"""How far back the last event of a filter with wildcards is searched: seconds of one thread."""
SOCKET_SUBSCRIPTIONS_MAX: Final = 1_000
"""Filters of one WebSocket; each costs memory on the server."""
SOCKET_PENDING_COMMANDS_MAX: Final = 256
"""Commands of one WebSocket that wait for the disk or for its reader, above which reading
pauses."""
SOCKET_REASON_BYTES_MAX: Final = 123
"""The text of a close frame: 125 bytes less the code (RFC 6455, 5.5)."""
COMMAND_ID_CHARS_MAX: Final = 64
"""Length of a command's id, which is returned with the answer."""

# HTTP ---------------------------------------------------------------------------------------------
HTTP_BODY_SECONDS_MAX: Final = 60
"""From a request's head to the end of its body, and a second more for each so many bytes of it:"""
HTTP_BODY_BYTES_PER_SECOND_MIN: Final = 8 * 1024
"""A large import takes as long as it takes, and nobody holds a connection with a byte a minute."""
HTTP_DOCUMENTS_MAX: Final = 1
"""Descriptions of the fixed routes that a process keeps: one server has one."""
HTTP_CALLERS_MAX: Final = 4_096
"""Cached callers by peer address; cleared when full."""
HTTP_PAGE_RECORDS: Final = 500
"""Records of a collection read and encoded at a time: a few milliseconds of the event loop."""
HTTP_PAGE_SORTED_RECORDS: Final = 4_000
"""Records read at a time in a sorted query: without an index, each page sorts the table."""
HTTP_LIMIT_LINKED_RECORDS_MAX: Final = 10_000
"""Records of one page that is answered with a link to the next: they are in memory at once."""
HTTP_BATCH_RECORDS_MAX: Final = 10_000
"""Records in one batch: a fifth of what may wait for the disk."""
HTTP_REPRESENTATIONS_MAX: Final = 16
"""Cached encodings of one record, those of other doors included: covers every real Accept, and
bounds memory for invented ones."""
HTTP_DIRECT_BYTES_MAX: Final = 16 * 1024
"""Larger bodies are not cached with the response head: two writes are cheaper than a copy."""
HTTP_PROPERTY_DEPTH_MAX: Final = 4
"""Dots of a path that are tried as the start of a property: each may need a read."""
CORS_PREFLIGHT_SECONDS: Final = 600
"""How long a browser caches a preflight: the maximum of common browsers."""
START_POLL_SECONDS: Final = 0.001
"""Interval between checks whether HTTP accepts connections at start; a few are needed."""
HTTP_HEAD_SECONDS_MAX: Final = 20
"""From a new connection, or a request's first byte, to the end of its headers; browsers open spare
connections and keep them that long."""
HTTP_HEAD_BYTES_MAX: Final = 64 * 1024
"""Request line and headers: four times the maximum of browsers and proxies."""
HTTP_DRAINED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a body after its answer, such as 413: a client that sends all before it reads gets the answer,
one that sends without end is closed."""
