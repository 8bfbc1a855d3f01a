"""The endpoint in front of both engines; its room is kept, nothing lives in it yet."""
