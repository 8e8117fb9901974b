"""The cases of sessions, of reconnecting, and of what features cost."""

from typing import Final

from bench.case import NONE, PAYLOAD_BYTES, Case, Figure, flow, mqtt

BESIDE_MOSQUITTO = {"mosquitto": NONE}
ANY_MOSQUITTO = {"mosquitto": NONE, "mosquitto-unlimited": NONE}
OFFLINE = {"load": "offline", "sessions": 10_000, "messages": 1_000, "payload": PAYLOAD_BYTES}
STORM = {"load": "storm", "clients": 2_000}
PLAIN = {"rowcast-plain": NONE}

SESSIONS = (
    Case(
        "session-offline",
        "publish what {sessions:,.0f} sessions that are away want, QoS 1",
        "msg/s",
        OFFLINE,
        BESIDE_MOSQUITTO,
        metric="publish_rate",
        cpu="publish_us",
        fresh=True,
        group="Sessions (Mosquitto keeps them in memory: persistence is off)",
        rounds_max=2,
        spare_seconds=900.0,
        more=(
            Figure("on disk for each message, none away", "bytes", "disk_bytes_none"),
            Figure("on disk for each message, a tenth of them away", "bytes", "disk_bytes_few"),
            Figure("on disk for each message, all of them away", "bytes", "disk_bytes"),
            Figure("in memory for each message", "bytes", "memory_bytes", BESIDE_MOSQUITTO),
            Figure(
                "in memory for a session that is away",
                "bytes",
                "session_bytes",
                BESIDE_MOSQUITTO,
            ),
            Figure(
                "all come back, each for {messages:,.0f} messages",
                "msg/s",
                "rate",
                BESIDE_MOSQUITTO,
                lower_is_better=False,
                cpu="server_us",
            ),
            Figure("until all have them", "s", "seconds", BESIDE_MOSQUITTO),
            Figure("peak memory", "bytes", "peak_bytes", BESIDE_MOSQUITTO),
        ),
    ),
    *(
        Case(
            f"storm-{name}",
            f"{{clients:,.0f}} clients connect at once, {title}",
            "connects/s",
            {**STORM, "durable": name == "durable"},
            BESIDE_MOSQUITTO,
            fresh=True,
            more=(
                Figure("p99 to CONNACK", "us", "p99_us", BESIDE_MOSQUITTO),
                Figure("memory for each", "bytes", "bytes", BESIDE_MOSQUITTO),
            ),
        )
        for name, title in (("clean", "clean sessions"), ("durable", "to sessions that wait"))
    ),
    mqtt(
        "1-1-q1-durable",
        "1 to 1, QoS 1, to a durable session (ours logs)",
        flow(1, 1, 1, 1000, durable=True),
        None,
    ),
    mqtt(
        "1-1-q2-durable",
        "1 to 1, QoS 2, 20 in flight, to a durable session (ours logs)",
        flow(1, 1, 2, 20, durable=True),
        None,
    ),
    mqtt(
        "1-1-q2-durable-1000",
        "1 to 1, QoS 2, 1000 in flight, to a durable session (ours logs)",
        flow(1, 1, 2, 1000, durable=True),
        None,
        peers={"mosquitto-unlimited": NONE},
    ),
)

FEATURES: Final = (
    mqtt(
        "share-10-q0",
        "1 to 10 workers that share, QoS 0",
        flow(1, 10, 0, 1000, share="$share/workers/"),
        None,
        group="What features cost",
    ),
    mqtt(
        "share-10-q1",
        "1 to 10 workers that share, QoS 1",
        flow(1, 10, 1, 1000, share="$share/workers/"),
        None,
    ),
    mqtt(
        "filters",
        "1 to 1, QoS 0, 100,000 topics in turn among 100,000 filters",
        flow(1, 1, 0, 1000, spread=100_000, filters=100_000),
        None,
        peers=ANY_MOSQUITTO | {"rowcast-plain": NONE},
        peer_load={"rowcast-plain": {"spread": 0, "filters": 0}},
    ),
    mqtt(
        "hook-q0",
        "1 to 1, QoS 0, a hook that hears every PUBLISH; beside none",
        flow(1, 1, 0, 1000),
        None,
        peers=PLAIN,
        features="hook",
    ),
    mqtt(
        "hook-q1",
        "1 to 1, QoS 1, a hook that hears every PUBLISH; beside none",
        flow(1, 1, 1, 1000),
        None,
        peers=PLAIN,
        features="hook",
    ),
)
