"""Real OpenStack clouds, joined and compared (`make test-live`). docs/drivers/openstack.md: how to use your own."""
