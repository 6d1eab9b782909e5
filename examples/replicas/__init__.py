"""Four workers that share their conversations, behind a balancer: what ``docs/web/several-machines.md`` is about."""
