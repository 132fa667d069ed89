"""Serves OpenStack Neutron on loopback, without Keystone, for tests.

Usage: NEUTRON_TEST_DIR=DIR NEUTRON_TEST_PORT=PORT NEUTRON_TEST_PAGE=N VENV/bin/python serve.py

DIR is an empty directory, for the configuration and the database; port 0 is a free one; N is the
largest page of a list, by default without a limit. The
program writes "listening on PORT" to its standard output once it serves requests. It has no
arguments, since Neutron reads those of its process. It ends when its standard input does, so that
it does not outlive the test.
"""

import logging
import os
import pathlib
import sys
import threading
import wsgiref.simple_server

directory = pathlib.Path(os.environ["NEUTRON_TEST_DIR"]).resolve()
port = int(os.environ.get("NEUTRON_TEST_PORT", "0"))
page = int(os.environ.get("NEUTRON_TEST_PAGE", "-1"))

(directory / "neutron.conf").write_text(f"""[DEFAULT]
auth_strategy = noauth
core_plugin = ml2
service_plugins = router
transport_url = fake:/
rpc_workers = 0
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
state_path = {directory}
pagination_max_limit = {page}
api_paste_config = {sys.prefix}/etc/neutron/api-paste.ini
[database]
connection = sqlite:///{directory}/neutron.db
[oslo_concurrency]
lock_path = {directory}
[oslo_messaging_notifications]
driver = noop
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
""")
(directory / "ml2_conf.ini").write_text("""[ml2]
type_drivers = local,vxlan
tenant_network_types = local
mechanism_drivers = logger
extension_drivers =
[ml2_type_vxlan]
vni_ranges = 1:1000
""")
os.environ["OS_NEUTRON_CONFIG_DIR"] = str(directory)
os.environ["OS_NEUTRON_CONFIG_FILES"] = "neutron.conf;ml2_conf.ini"


def create_schema():
    """Creates the tables from the models, since the migrations refuse sqlite."""
    import sqlalchemy
    from neutron.db.migration.models import head

    engine = sqlalchemy.create_engine(f"sqlite:///{directory}/neutron.db")
    head.get_metadata().create_all(engine)
    engine.dispose()


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    """Does not log requests."""

    def log_message(self, *arguments):
        pass


def end_with_parent():
    sys.stdin.read()
    os._exit(0)


logging.disable(logging.WARNING)
create_schema()
from neutron.wsgi.api import application  # noqa: E402, reads the configuration

server = wsgiref.simple_server.make_server("127.0.0.1", port, application, handler_class=Handler)
threading.Thread(target=end_with_parent, daemon=True).start()
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()
