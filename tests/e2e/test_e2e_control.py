"""Mosquitto's commands for clients, roles and ACLs, as changes of our rows (L10)."""

import json
import shutil
import subprocess

import pytest

from rowcast.mqtt.packets import Will
from rowcast.mqtt.reasons import Reason
from serving import PATIENCE_SECONDS, Server, wait_until
from talking import Mqtt

ROOT = ("root", "pencil")
TOPIC = "$CONTROL/dynamic-security/v1"
FIRST = {"password": "pencil", "roles": ["admin"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("control")) as server:
        first = FIRST | {"setup_code": server.setup_code}
        assert 204 == server.request("PUT", "/$SYS/users/root", json=first).status_code
        yield server


def ask(server, *commands, auth=ROOT):
    """Send commands over HTTP; return the answers."""
    answer = server.request("POST", f"/{TOPIC}", auth=auth, json={"commands": commands})
    return answer.json().get("responses") or answer.status_code


def say(client, payload):
    return client.publish(TOPIC, payload, retain=False)


def command(name, **members):
    return {"command": name, **members}


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("mosquitto_ctrl"), reason="mosquitto_ctrl is not installed")
def test_l10_mosquitto_s_own_program_administers_clients_and_roles(server):
    def run(*words):
        where = ["-h", "127.0.0.1", "-p", str(server.mqtt_port), "-u", ROOT[0], "-P", ROOT[1]]
        done = subprocess.run(
            ["mosquitto_ctrl", *where, "dynsec", *words],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        return done.stdout.strip() + done.stderr.partition(f"{words[0]}: ")[2].strip()

    acl = ("sensor", "publishClientSend", "s/%u/#")
    assert "" == run("createRole", "sensor")
    assert "" == run("addRoleACL", *acl, "allow")
    assert "Error: ACL with this topic already exists" == run("addRoleACL", *acl, "allow")
    assert "" == run("createClient", "dev", "-p", "first")
    assert "Error: Client already exists" == run("createClient", "dev", "-p", "x")
    assert "" == run("addClientRole", "dev", "sensor")
    assert "" == run("setClientPassword", "dev", "second")
    assert "publishClientSend    : allow : s/%u/#" in run("getRole", "sensor")
    assert "sensor" in run("getClient", "dev")
    assert ["root", "dev"] == run("listClients").split()
    with Mqtt(server.mqtt_port, client_id="d", username="dev", password=b"second") as dev:
        assert Reason.SUCCESS is dev.publish("s/dev/1", b"1").reason
        assert Reason.NOT_AUTHORIZED is dev.publish("s/other/1", b"1").reason
        assert (Reason.NOT_AUTHORIZED,) == tuple(dev.subscribe("s/#").reasons)
        assert "" == run("disableClient", "dev")
        assert Reason.ADMINISTRATIVE_ACTION is dev.receive().reason
    assert "" == run("enableClient", "dev")
    assert "" == run("deleteRole", "sensor")
    row = server.request("GET", "/$SYS/users/dev", auth=ROOT).json()
    assert ([], []) == (row["roles"], server.request("GET", "/$SYS/rules/", auth=ROOT).json())
    assert "" == run("deleteClient", "dev")
    assert "Error: Client not found" == run("deleteClient", "dev")
    assert "there are no groups here" in run("createGroup", "g")


def test_l10_commands_are_answered_in_order_to_administrators_only(server):
    who = {"username": "root", "password": b"pencil"}
    ask(server, command("createClient", username="low", password="secret"))
    low = {"username": "low", "password": b"secret"}
    with Mqtt(server.mqtt_port, client_id="r", **who) as root:
        root.subscribe(f"{TOPIC}/response")
        asked = [command("getClient", username="low", correlationData="7"), command("nope"), 3]
        say(root, json.dumps({"commands": asked}).encode())
        first, second, third = json.loads(root.message().payload)["responses"]
        client = {"username": "low", "roles": [], "groups": []}
        assert {"command": "getClient", "data": {"client": client}, "correlationData": "7"} == first
        assert ("nope", True) == (second["command"], "known are createClient" in second["error"])
        assert "a command is a map" in third["error"]
        say(root, b"{")
        assert "no JSON" in json.loads(root.message().payload)["responses"][0]["error"]
    with Mqtt(server.mqtt_port, client_id="l", **low) as spy:
        assert Reason.NOT_AUTHORIZED is say(spy, b'{"commands": []}').reason
        for text in (f"{TOPIC}/response", "$CONTROL/#"):
            assert Reason.NOT_AUTHORIZED in spy.subscribe(text).reasons
    assert 403 == ask(server, command("listClients"), auth=("low", "secret"))


def test_l10_what_has_no_equal_here_is_a_sentence_and_changes_nothing(server):
    ask(server, command("createRole", rolename="r"), command("createClient", username="c"))
    acl = {"rolename": "r", "topic": "a/#", "allow": True}
    refused = {
        "there are no groups": command("modifyClient", username="c", groups=[{"groupname": "g"}]),
        "not bound to a client id": command("createClient", username="d", clientid="x"),
        "Role not found": command("addClientRole", username="c", rolename="none"),
        "a denial wins": command("addRoleACL", acltype="subscribePattern", priority=3, **acl),
        "no wildcards": command("addRoleACL", acltype="subscribeLiteral", **acl),
        "receives what is there": command("addRoleACL", acltype="publishClientReceive", **acl),
        "may unsubscribe": command("addRoleACL", acltype="unsubscribePattern", **acl),
        "Invalid acltype": command("addRoleACL", acltype="x", **acl),
        "Invalid/missing username": command("deleteClient"),
        "said for each user by its grants": command("setDefaultACLAccess", acls=[]),
        "may do everything": command("modifyRole", rolename="admin", textname="x"),
        "nobody could change users": command("deleteClient", username="root"),
        "wildcard": command("createClient", username="a/+"),
    }
    answers = ask(server, *refused.values())
    for words, answer in zip(refused, answers, strict=True):
        assert words in answer["error"], answer
    (many,) = ask(server, *[command("getClient", username="c")] * 101)[100:]
    assert "more than 100 commands" in many["error"]
    (listed,) = ask(server, command("getRole", rolename="r"))
    assert [] == listed["data"]["role"]["acls"]


def test_l10_a_role_with_an_acl_that_is_refused_is_not_changed(server):
    """It neither loses the ACLs that it has, nor is it there with a part of its ACLs."""
    kept = {"acltype": "subscribePattern", "topic": "kept/#", "allow": False}
    bad = kept | {"topic": "a/#/b"}
    ask(server, command("createRole", rolename="k", acls=[kept]))
    modified, created = ask(
        server,
        command("modifyRole", rolename="k", acls=[bad]),
        command("createRole", rolename="new", acls=[kept, bad]),
    )
    assert ("error" in modified, "error" in created) == (True, True)
    had, absent = ask(server, command("getRole", rolename="k"), command("getRole", rolename="new"))
    assert [kept | {"priority": 0}] == had["data"]["role"]["acls"]
    assert "Role not found" == absent["error"]
    rows = server.request("GET", "/$SYS/rules/", auth=ROOT).json()
    assert [] == [row["id"] for row in rows if "new" in row["roles"]]
    ask(server, command("deleteRole", rolename="k"))


def test_l10_rules_of_ours_are_shown_as_what_they_come_to(server):
    rule = {"filter": "own/${username}", "actions": ["all"], "roles": ["q"], "effect": "deny"}
    ask(server, command("createRole", rolename="q"))
    assert 201 == server.request("PUT", "/$SYS/rules/own", auth=ROOT, json=rule).status_code
    (answer,) = ask(server, command("getRole", rolename="q"))
    kinds = ["publishClientSend", "publishClientReceive", "subscribePattern"]
    assert [
        {"acltype": kind, "topic": "own/%u", "priority": 0, "allow": False} for kind in kinds
    ] == answer["data"]["role"]["acls"]
    acls = [{"acltype": "subscribePattern", "topic": "x/#", "allow": True}]
    ask(server, command("modifyRole", rolename="q", acls=acls))
    ask(server, command("modifyRole", rolename="q", acls=[]))
    rows = server.request("GET", "/$SYS/rules/", auth=ROOT).json()
    assert ["own"] == [row["id"] for row in rows if "q" in row["roles"]]
    server.request("DELETE", "/$SYS/rules/own", auth=ROOT)


def test_l10_no_password_is_kept_and_each_change_is_audited(server):
    commands = {"commands": [command("createClient", username="eve", password="top-secret")]}
    payload = json.dumps(commands).encode()
    who, later = {"username": "root", "password": b"pencil"}, f"$delayed/60/{TOPIC}"
    with Mqtt(server.mqtt_port, client_id="once", **who) as root:
        assert Reason.TOPIC_NAME_INVALID is root.publish(TOPIC, payload).reason
        assert Reason.NOT_AUTHORIZED is root.publish(later, payload, retain=False).reason
        assert Reason.SUCCESS is say(root, payload).reason
    with Mqtt(server.mqtt_port, client_id="w", will=Will(TOPIC, payload), **who) as refused:
        assert Reason.TOPIC_NAME_INVALID is refused.connack.reason
    path = "/$AUDIT/users/eve?last=9"
    told = wait_until(lambda: server.request("GET", path, auth=ROOT).json(), "it is audited")
    keys = ("user", "door", "action", "outcome")
    assert [("root", "mqtt", "put", "done")] == [
        tuple(item["value"][key] for key in keys) for item in told
    ]
    files = [file for file in (server.folder / "data").rglob("*") if file.is_file()]
    assert [] == [file.name for file in files if b"top-secret" in file.read_bytes()]
