"""Sites: topics that are kept equal at several servers, and the writes that lost there."""
