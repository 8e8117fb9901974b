"""Who may do what, said a second time: a plain evaluator for tests to compare the server with.

It shares no code with the server. Rules are nested tuples, policies plain data; what is said here
is what docs/access.md says. A random policy is written as a schema, as rows of ``$SYS/rules``, and
as the access list ``hooks.acl``.
"""

import json
from dataclasses import dataclass, field

OWNERS = ("ann", "ben", "cem")
SITES = ("north", "south", "east")
ROLES = ("keeper", "vet", "hr")
FIELDS = ("owner", "site", "level", "phone", "salary", "team")


@dataclass(frozen=True)
class Person:
    """Somebody who asks."""

    name: str
    roles: frozenset = frozenset()
    claims: dict = field(default_factory=dict)
    read: bool = True
    write: bool = True


@dataclass(frozen=True)
class Auth:
    """One @auth: rules are tuples, None where it does not say."""

    roles: tuple = ()
    read: tuple | bool | None = None
    write: tuple | bool | None = None
    mask: dict | str | None = None

    def text(self, *, on_field=False):
        """As the schema writes it."""
        parts = []
        if self.roles:
            parts.append(f"roles: {json.dumps(list(self.roles))}")
        for name in ("read", "write"):
            rule = getattr(self, name)
            if rule is not None:
                parts.append(f"{name}: {json.dumps(rule_text(rule))}")
        if self.mask:
            plain = json.dumps(self.mask)
            by_name = (
                ", ".join(f'{key}: "{value}"' for key, value in dict(self.mask).items())
                if (not on_field)
                else ""
            )
            parts.append(f"mask: {plain}" if on_field else f"mask: {{{by_name}}}")
        return f"@auth({', '.join(parts)})"


def rule_text(rule):
    """A rule as it is written."""
    if rule is True or rule is False:
        return "true" if rule else "false"
    kind = rule[0]
    if kind in {"and", "or"}:
        return "(" + f" {kind} ".join(map(rule_text, rule[1])) + ")"
    if kind == "has":
        return f"{_operand_text(rule[2])} in {rule[1]}"
    sign = {"eq": "==", "ne": "!=", "le": "<=", "gt": ">", "in": "in"}[kind]
    return f"{rule[1]} {sign} {_operand_text(rule[2])}"


def _operand_text(value):
    if isinstance(value, tuple):
        return "$user" if value == ("user",) else f"$user.{value[1]}"
    return f"'{value}'" if isinstance(value, str) else str(value)


def true_of(rule, person, value):
    """Whether a rule is true of a value, for a person."""
    if rule is True or rule is False:
        return rule
    kind = rule[0]
    if kind == "and":
        return all(true_of(item, person, value) for item in rule[1])
    if kind == "or":
        return any(true_of(item, person, value) for item in rule[1])
    wanted = rule[2]
    if isinstance(wanted, tuple):
        wanted = person.name if wanted == ("user",) else person.claims.get(wanted[1])
        if wanted is None:
            return False
    found = value.get(rule[1])
    if kind == "has":
        return isinstance(found, list) and not isinstance(wanted, list) and wanted in found
    if kind == "in":
        return found is not None and found in (wanted if isinstance(wanted, list) else [wanted])
    if isinstance(wanted, list):
        return False
    text = rule[1] != "level"
    if isinstance(wanted, str) is not text:
        return False
    if kind == "eq":
        return found == wanted
    if kind == "ne":
        return found != wanted
    if found is None:
        return False
    return found <= wanted if kind == "le" else found > wanted


def never(rule, person):
    """Whether a rule can be true of no record, for what it wants to know of a person."""
    if rule is True or rule is False:
        return rule is False
    if rule[0] == "and":
        return any(never(item, person) for item in rule[1])
    if rule[0] == "or":
        return all(never(item, person) for item in rule[1])
    wanted = rule[2]
    if isinstance(wanted, tuple):
        wanted = person.name if wanted == ("user",) else person.claims.get(wanted[1])
        if isinstance(wanted, list):
            return not wanted or rule[0] != "in"
    return wanted is None or isinstance(wanted, str) is (rule[1] == "level")


@dataclass
class Policy:
    """What is said of the table Doc, and of topics."""

    auth: tuple = ()
    fields: dict = field(default_factory=dict)
    rules: dict = field(default_factory=dict)
    listed: tuple = ()
    """Rules of the access list, as the settings write them; without any it says nothing."""

    @property
    def schema(self):
        """The table, as it is declared."""
        lines = [f"type Doc @table @export {' '.join(item.text() for item in self.auth)} {{"]
        lines.append("  id: ID @primaryKey")
        for name in FIELDS:
            kind = {"level": "Int", "salary": "Int", "team": "[String]"}.get(name, "String")
            said = " ".join(item.text(on_field=True) for item in self.fields.get(name, ()))
            lines.append(f"  {name}: {kind} {said}")
        return "\n".join([*lines, "}", "type Open @table @export { id: ID @primaryKey }"])

    # -- topics ------------------------------------------------------------------------------------

    def may(self, person, action, topic):
        """Whether topic rules, grants and the access list let a person do something at a topic."""
        if not self.lists(person, action, topic):
            return False
        if "admin" in person.roles:
            return True
        denied = allowed = False
        for rule in self.rules.values():
            if not self._about(rule, person) or not self._fits(rule["filter"], topic, person):
                continue
            named = set(rule["actions"])
            if rule["effect"] == "deny":
                words = {"read": {"read", "all"}, "write": {"write", "all"}}[action]
                denied = denied or bool(named & words)
            else:
                words = {"read": {"read", "subscribe", "all"}, "write": {"write", "all"}}[action]
                allowed = allowed or bool(named & words)
        if denied:
            return False
        return allowed or getattr(person, action)

    def lists(self, person, action, text):
        """Whether the access list lets anybody do something at all of a topic or filter."""
        words = {"write": {"write", "publish", "all"}, "subscribe": {"subscribe", "all"}}
        words["read"] = {"read", "subscribe", "all"}
        for rule in self.listed:
            about = not rule.get("users") or person.name in rule["users"]
            named = set(rule["actions"]) & words[action]
            if about and named and any(self._holds(one, text, person) for one in rule["topics"]):
                return rule["effect"] == "allow"
        return not self.listed

    @classmethod
    def _holds(cls, pattern, text, person):
        """Whether a filter of the access list selects all that a topic or filter does."""
        whole = text.removesuffix("#").removesuffix("/")
        if whole == text:
            return cls._fits(pattern, text, person)
        return pattern.endswith("#") and cls._fits(pattern, whole, person)

    @staticmethod
    def _fits(pattern, topic, person):
        wanted = pattern.replace("${username}", person.name).split("/")
        levels = topic.split("/")
        for number, level in enumerate(wanted):
            if level == "#":
                return True
            if number >= len(levels) or level not in {"+", levels[number]}:
                return False
        return len(wanted) == len(levels)

    # -- rules about records -----------------------------------------------------------------------

    def _ruled(self, person, action):
        """What rules allow a person of the table: (attributes or None, [(where, mask)] or None)."""
        words = {"read": {"read", "subscribe", "all"}, "write": {"write", "all"}}[action]
        found = [
            rule
            for rule in self.rules.values()
            if rule["effect"] == "allow" and rule["filter"] in {"Doc/#", "#"}
            if set(rule["actions"]) & words and self._about(rule, person)
        ]
        narrow = [rule for rule in found if "where" in rule or "mask" in rule]
        named = [set(rule["attributes"]) for rule in found if rule.get("attributes")]
        if "admin" in person.roles or len(narrow) + len(named) < len(found) or not found:
            return None, None
        ways = [(rule.get("where", True), rule.get("mask", {})) for rule in found]
        return set().union(*named) if named else None, ways if narrow else None

    @staticmethod
    def _about(rule, person):
        if not rule.get("roles") and not rule.get("users"):
            return True
        roles = person.roles & set(rule.get("roles", ()))
        return person.name in rule.get("users", ()) or bool(roles)

    def _allows(self, person, action, value):
        """Whether rules about records let a person read or write one of this value."""
        ways = self._ruled(person, action)[1]
        return ways is None or any(true_of(where, person, value) for where, _ in ways)

    def _allows_none(self, person, action):
        ways = self._ruled(person, action)[1]
        return ways is not None and all(never(where, person) for where, _ in ways)

    # -- records -----------------------------------------------------------------------------------

    @staticmethod
    def _concern(clauses, person):
        return [item for item in clauses if not item.roles or person.roles & set(item.roles)]

    def _reading(self, clauses, person):
        """The clauses by which a person may read, with their rules; None: nothing is said."""
        if not any(item.read is not None or item.write is None for item in clauses):
            return None
        return [
            (True if item.read is None else item.read, item)
            for item in self._concern(clauses, person)
            if item.read is not None or item.write is None
        ]

    def _writing(self, clauses, person):
        said = any(item.write is not None for item in clauses)
        rules = []
        for item in self._concern(clauses, person):
            if item.write is not None:
                rules.append(item.write)
            elif item.read is None:
                rules.append(True)
            elif not said:
                rules.append(item.read)
        return rules

    def opens(self, person):
        """Whether a person may see any record at all, as far as roles decide."""
        reading = self._reading(self.auth, person)
        if "admin" in person.roles:
            return True
        if self._allows_none(person, "read"):
            return False
        return reading is None or any(not never(rule, person) for rule, _ in reading)

    def sees(self, person, value):
        """Whether a person sees a record of this value."""
        if "admin" in person.roles:
            return True
        reading = self._reading(self.auth, person)
        seen = reading is None or any(true_of(rule, person, value) for rule, _ in reading)
        return seen and self._allows(person, "read", value)

    def hidden(self, person, value):
        """Which attributes of a record that a person sees are masked ('' is left out)."""
        found = {}
        if "admin" in person.roles:
            return found
        reading = self._reading(self.auth, person)
        holding = [item for rule, item in reading or () if true_of(rule, person, value)]
        for name in FIELDS:
            masks = [(item.mask or {}).get(name) for item in holding]
            if masks and None not in masks:
                found[name] = masks[0]
            own = self._reading(self.fields.get(name, ()), person)
            if own is not None and self.fields.get(name):
                masks = [item.mask for rule, item in own if true_of(rule, person, value)]
                if None not in masks:
                    found[name] = next(iter(masks), "")
        only, ways = self._ruled(person, "read")
        holding = [mask for where, mask in ways or () if true_of(where, person, value)]
        for name in FIELDS:
            masks = [mask.get(name) for mask in holding]
            if masks and None not in masks:
                found[name] = min(found.get(name, masks[0]), masks[0], key=_strictness)
        return found | dict.fromkeys(set(value) - only if only is not None else (), "")

    def shown(self, person, value):
        """What a person is shown of a record that it sees."""
        hidden, out = self.hidden(person, value), {}
        for name, item in value.items():
            mask = hidden.get(name)
            if mask is None:
                out[name] = item
            elif mask != "":
                out[name] = _mask(item, mask)
        return out

    def unsure(self, person):
        """The attributes that a person may not see in every record as they are."""
        if "admin" in person.roles:
            return set()
        reading = self._reading(self.auth, person)
        only, ways = self._ruled(person, "read")
        found = set(FIELDS) - only if only is not None else set()
        for name in FIELDS:
            plain = [where for where, mask in ways or () if name not in mask]
            if any(name in mask for _, mask in ways or ()) and True not in plain:
                found.add(name)
            masking = [rule for rule, item in reading or () if name in (item.mask or {})]
            masked = [rule for rule in masking if not never(rule, person)]
            plain = [rule for rule, item in reading or () if name not in (item.mask or {})]
            if masked and True not in plain:
                found.add(name)
            own = self._reading(self.fields.get(name, ()), person)
            plain = [rule for rule, item in own or () if item.mask is None]
            if own is not None and self.fields.get(name) and True not in plain:
                found.add(name)
        return found

    def writes(self, person, value):
        """Whether a person may write a record of this value."""
        if "admin" in person.roles:
            return True
        if not self._allows(person, "write", value):
            return False
        rules = self._writing(self.auth, person)
        return not self.auth or any(true_of(rule, person, value) for rule in rules)

    def closed(self, person):
        """Whether a person may write no record at all."""
        if "admin" in person.roles:
            return False
        if self._allows_none(person, "write"):
            return True
        return bool(self.auth) and all(
            never(rule, person) for rule in self._writing(self.auth, person)
        )

    def after(self, person, topic, kind, old, given):
        """What becomes of a write: (status, the value then); None is no record."""
        if not self.may(person, "write", topic) or self.closed(person):
            return 403, old
        seen = old if old is not None and self.sees(person, old) else None
        if kind == "delete":
            if seen is None:
                return 404, old
            return (204, None) if self.writes(person, old) else (403, old)
        if seen is None and kind == "patch" and not self.sees_all(person):
            return 404, old
        if old is not None and (seen is None or not self.writes(person, old)):
            return 403, old
        new = {**(old or {}), **given} if kind == "patch" else dict(given)
        kept = self._kept(person, old if old is not None else new)
        if kept & given.keys():
            return 403, old
        for name in kept & (old or {}).keys():
            new[name] = old[name]
        if not (self.sees(person, new) and self.writes(person, new)):
            return 403, old
        return (204 if old is not None else 201), new

    def sees_all(self, person):
        """Whether a person sees every record, by what is said or because nothing is."""
        if "admin" in person.roles:
            return True
        reading, (_, ways) = self._reading(self.auth, person), self._ruled(person, "read")
        return all(
            rules is None or any(rule is True for rule, _ in rules) for rules in (reading, ways)
        )

    def _kept(self, person, value):
        """The attributes that a person may not write."""
        if "admin" in person.roles:
            return set()
        out = set(self.hidden(person, value))
        for name, clauses in self.fields.items():
            if any(item.write is not None for item in clauses):
                out.discard(name)
                rules = self._writing(clauses, person)
                if not any(true_of(rule, person, value) for rule in rules):
                    out.add(name)
        only = self._ruled(person, "write")[0]
        return out if only is None else out | (set(FIELDS) - only)

    def event(self, person, topic, kind, old, new):
        """What a person hears of a change: (kind, value), or None."""
        if not self.may(person, "read", topic):
            return None
        had = old is not None and self.sees(person, old)
        had = had or self.sees_all(person)  # who sees all is told what was done, as it was done
        if new is None:
            return ("delete", None) if had else None
        if self.sees(person, new):
            return ("put" if kind == "patch" and not had else kind), self.shown(person, new)
        return ("delete", None) if had else None


def _strictness(mask):
    return {"": -2, "null": -1}[mask] if mask in {"", "null"} else int(mask[-1])


def _mask(value, mask):
    if not isinstance(value, str) or mask == "null":
        return None
    count = int(mask[-1])
    return "***" if len(value) <= count else "***" + value[-count:]
