"""kopf: an operator with handlers, a finalizer and admission webhooks, which kopf registers."""

import asyncio
import datetime
import ipaddress
import logging
import pathlib
import queue
import tempfile
import threading

import kopf
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes import client
from kubernetes.client.rest import ApiException

from custom import BOATS, GROUP, boat, customs
from report import NAMESPACE, check, expect, until
from typed import core

#: The selector of the boats of the operator.
FLEET = {"fleet": "kopf"}

#: The name of the webhook configurations.
MANAGED = f"kopf.{GROUP}"

logging.getLogger("kopf").setLevel(logging.CRITICAL)

# The calls of the handlers.
reported = queue.Queue()
stop = threading.Event()
ready = threading.Event()
thread = None


@kopf.on.startup()
def configure(settings, **_):
    certificate, key = _certificate()
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", certfile=certificate, pkeyfile=key
    )
    settings.admission.managed = MANAGED
    settings.persistence.finalizer = f"{GROUP}/kopf"


@kopf.on.mutate(GROUP, "boats", labels=FLEET, operations=["CREATE"])
def mutate(patch, warnings, **_):
    patch.spec["port"] = "home"
    warnings.append("a boat needs a port")


@kopf.on.validate(GROUP, "boats", labels=FLEET)
def validate(spec, **_):
    if spec.get("crew", 0) > 100:
        raise kopf.AdmissionError("too many aboard", code=400)


@kopf.on.create(GROUP, "boats", labels=FLEET)
def on_create(body, name, namespace, spec, patch, **_):
    log = {"metadata": {"name": f"log-of-{name}"}, "data": {"crew": str(spec["crew"])}}
    kopf.adopt(log, owner=body)
    core.create_namespaced_config_map(namespace, log)
    patch.status["place"] = spec["port"]


@kopf.on.update(GROUP, "boats", labels=FLEET, field="spec.crew")
def on_update(name, namespace, old, new, **_):
    core.patch_namespaced_config_map(f"log-of-{name}", namespace, {"data": {"crew": str(new)}})
    reported.put(("crew", old, new))


@kopf.on.delete(GROUP, "boats", labels=FLEET)
def on_delete(name, namespace, **_):
    core.delete_namespaced_config_map(f"log-of-{name}", namespace)
    reported.put(("deleted", name))


def _certificate():
    """Files with a certificate for 127.0.0.1 that is its own authority, and its key.

    kopf can create one itself, but only with a package that does not support OpenSSL 3.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kopf")])
    now = datetime.datetime.now(datetime.timezone.utc)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "certificate.pem").write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
    )
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "certificate.pem", folder / "key.pem"


def _kopf_boat(name, **spec):
    body = boat(name, **spec)
    body["metadata"]["labels"] = FLEET
    return body


def _read(name):
    return customs.get_namespaced_custom_object(name=name, **BOATS)


def _webhooks():
    """The number of registered webhooks of each type."""
    admission = client.AdmissionregistrationV1Api()
    try:
        mutating = admission.read_mutating_webhook_configuration(MANAGED)
        validating = admission.read_validating_webhook_configuration(MANAGED)
    except ApiException as error:
        expect("status", error.status, 404)
        return 0, 0
    return len(mutating.webhooks or []), len(validating.webhooks or [])


@check
def an_operator_starts_and_registers_its_webhooks():
    global thread
    operator = kopf.operator(
        standalone=True, namespaces=[NAMESPACE], ready_flag=ready, stop_flag=stop
    )
    thread = threading.Thread(target=lambda: asyncio.run(operator), daemon=True)
    thread.start()
    until(ready.is_set)
    until(lambda: _webhooks() == (1, 1))


@check
def a_new_object_is_mutated_and_handled():
    customs.create_namespaced_custom_object(body=_kopf_boat("junk", crew=3), **BOATS)
    expect("port, by the webhook", _read("junk")["spec"]["port"], "home")
    until(lambda: _read("junk").get("status", {}).get("place") == "home")
    log = core.read_namespaced_config_map("log-of-junk", NAMESPACE)
    expect("log", log.data, {"crew": "3"})
    expect("owner", [it.kind for it in log.metadata.owner_references], ["Boat"])
    expect("finalizers", _read("junk")["metadata"]["finalizers"], [f"{GROUP}/kopf"])


@check
def objects_without_the_label_are_ignored():
    customs.create_namespaced_custom_object(body=boat("skiff", crew=1000), **BOATS)
    expect("spec", _read("skiff")["spec"], {"crew": 1000})
    customs.delete_namespaced_custom_object(name="skiff", **BOATS)


@check
def an_object_is_refused_by_the_admission_handler():
    try:
        customs.create_namespaced_custom_object(body=_kopf_boat("barge", crew=101), **BOATS)
    except ApiException as error:
        expect("status", error.status, 400)
        expect(error.body, "denied the request: too many aboard" in error.body, True)
    else:
        raise AssertionError("it was accepted")


@check
def a_change_is_handled():
    customs.patch_namespaced_custom_object(name="junk", body={"spec": {"crew": 4}}, **BOATS)
    expect("reported", reported.get(timeout=20), ("crew", 3, 4))
    log = core.read_namespaced_config_map("log-of-junk", NAMESPACE)
    expect("log", log.data, {"crew": "4"})


@check
def a_deletion_waits_for_the_finalizer():
    customs.delete_namespaced_custom_object(name="junk", **BOATS)
    expect("reported", reported.get(timeout=20), ("deleted", "junk"))

    def gone():
        try:
            _read("junk")
        except ApiException as error:
            expect("status", error.status, 404)
            return True
        return False

    until(gone)


@check
def an_operator_stops_and_removes_its_webhooks():
    stop.set()
    thread.join(20)
    expect("running", thread.is_alive(), False)
    expect("webhooks", _webhooks(), (0, 0))
