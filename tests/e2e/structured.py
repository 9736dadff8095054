"""Structured fields, parsed as RFC 9651 says (4.2), strictly: what is not one raises ValueError.

Lists of items with parameters are all that the RateLimit fields are made of; inner lists, byte sequences, dates and
display strings are not read, and so are refused.
"""

import re

KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
NUMBER = re.compile(r"-?(?:\d{1,12}\.\d{1,3}|\d{1,15})(?![\d.])")
STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")
BOOLEAN = re.compile(r"\?([01])")


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def match(self, pattern):
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def eat(self, literal):
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        return True

    def skip(self, characters):
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def bad(self, expected):
        return ValueError(f"expected {expected} at {self.at} of {self.text!r}")

    def bare_item(self):
        if found := self.match(NUMBER):
            return float(found.group()) if "." in found.group() else int(found.group())
        if found := self.match(STRING):
            return re.sub(r'\\(["\\])', r"\1", found.group(1))
        if found := self.match(TOKEN):
            return found.group()
        if found := self.match(BOOLEAN):
            return found.group(1) == "1"
        raise self.bad("an item")

    def item(self):
        value, parameters = self.bare_item(), {}
        while self.eat(";"):
            self.skip(" ")
            key = self.match(KEY)
            if not key:
                raise self.bad("a key")
            parameters[key.group()] = self.bare_item() if self.eat("=") else True
        return value, parameters


def parse_list(text):
    """[(item, parameters)] of a field's value."""
    text.encode("ascii")
    reader, members = Reader(text), []
    reader.skip(" ")
    while reader.at < len(text):
        members.append(reader.item())
        reader.skip(" \t")
        if reader.at == len(text):
            return members
        if not reader.eat(","):
            raise reader.bad("a comma")
        reader.skip(" \t")
        if reader.at == len(text):
            raise reader.bad("a member after the comma")
    return members


def parse_integer(text):
    """The value of a field that is one integer."""
    ((value, parameters),) = parse_list(text)
    if type(value) is not int or parameters:
        raise ValueError(f"not an integer: {text!r}")
    return value
