"""What keeps one log on several machines: NATS JetStream, PostgreSQL."""
