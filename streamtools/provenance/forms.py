"""Normalises texts for comparison, and finds the numbers, dates and account numbers in them.

Doubt goes against a value: an untrusted text is read in every way in which a model may read it (look-alike letters,
hidden ones, without markup); a trusted one vouches only for its literal content.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from decimal import Decimal

MAX_NUMBER_CHARS = 64  # of a number or an account number

# -- the form in which texts are compared --

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt@._*-]))")  # of JSON, which results are mostly written in
_ESCAPED = {"b": " ", "f": " ", "n": " ", "r": " ", "t": " "}
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_LIGATURE = re.compile(
    "[\ufdfa\ufdfb\u3300-\u3357]"
)  # each stands for a sentence or a word, which would take much room
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_RAISED = re.compile(
    "(?<=[0-9])(?=[\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089\u00bc-\u00be\u2150-\u215f\u2460-\u249b])"
)
_MARK = re.compile("[\u0300-\u036f\u20d0-\u20f0]")  # that no letter has for its own, such as a stroke through it
_LOOK_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁԛԝӏαειικνορτυχıɡɑ", "abekmhopctyxijsdqwlaeiikvoptuxiga"
)  # Cyrillic, Greek, phonetic
_HIDDEN = {0xE0000 + code: code for code in range(0x20, 0x7F)}  # tags, which models read and people do not see


def normalised(text: str, *, trusted: bool = False) -> str:
    """Returns a text as it is compared: NFKC, without case and invisible characters, spaces joined, JSON's and HTML's
    escapes resolved. Of a text that is not trusted, also letters that look alike are the same."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped_path if trusted else _unescaped, text)
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if text.isascii():
        text = text.lower()
    else:
        text = text if trusted else text.translate(_HIDDEN)
        text = unicodedata.normalize("NFKC", _RAISED.sub(" ", _LIGATURE.sub(" ", text)))
        # "ß" and "ss" are different names of hosts (IDNA 2008)
        text = unicodedata.normalize("NFKC", text.lower() if trusted else text.casefold())
        text = _OTHER_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), _BLANK.sub("", text))
        text = text if trusted else _MARK.sub("", text).translate(_LOOK_ALIKE)
    text = " ".join(text.split())
    return text if text.isprintable() else " ".join("".join(filter(str.isprintable, text)).split())


def as_written(text: str) -> str:
    """Returns a text with every character in it, but for case and spaces: the form of values that `normalised` would
    change into others."""
    return " ".join(re.sub("[\x00-\x1f]", " ", unicodedata.normalize("NFC", text).lower()).split())


def _unescaped(found: re.Match[str]) -> str:
    code, sign = found[1], found[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(sign, sign)


def _unescaped_path(found: re.Match[str]) -> str:
    r"""Returns a sign behind which a word ends but a path goes on: C:\new may be one."""
    return "\\ " if found[2] in _ESCAPED else _unescaped(found)


# Scripts without spaces between words: each character is a token.
ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_TOKEN = re.compile(f"[{ALONE}]|[^\\W_{ALONE}]+")
_ASCII_TOKEN = re.compile("[a-z0-9]+")
IS_ALONE = re.compile(f"[{ALONE}]")


def tokens(text: str) -> list[str]:
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


# -- values that are written in several ways --

# A line of its own in the block, begun by a character that no text has: NUMBER 1234.5, DATE 2026-11-24, ACCOUNT de89...
NUMBER, DATE, ACCOUNT = "\x01", "\x02", "\x03"

A_NUMBER = re.compile(r"\d+(?:[.,'’_ ]\d+)*(?:e[+-]?\d{1,3}(?![^\W_]))?")
_BEFORE = re.compile(r"(?<![^\W_])[^\W\d_]{0,3}$")  # a currency or a unit, beside a number
_AFTER = re.compile(r"[^\W\d_]{0,3}(?![^\W_])")
_PLAIN = re.compile(r"(?:0|[1-9]\d*)(?:\.\d*[1-9])?")
_GROUPED = re.compile(r"\d{1,3}(?:([.,'’_ ])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?")

_MONTHS: dict[str, int] = dict(
    zip(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], range(1, 13), strict=True)
)
_MONTH = r"(?P<{}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
A_DATE = re.compile(
    r"(?<![\w.])(?:(?P<y1>\d{4})[./-](?P<m1>\d{1,2})[./-](?P<d1>\d{1,2})(?!\d)"
    r"|(?P<a>\d{1,2})[./-] ?(?P<b>\d{1,2})[./-] ?(?P<y2>\d{4}|\d{2})(?!\d)"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?{_MONTH.format('m3')},? (?P<y3>\d{{4}})(?!\d)"
    rf"|{_MONTH.format('m4')} (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y4>\d{{4}})(?!\d))"
)
A_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d)(?::00(?:\.0+)?)?(?:z|[+-]\d\d:?\d\d)?)?")
_ACCOUNT = re.compile(
    r"(?<![^\W_])(?:[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?"  # IBAN
    r"|\d{4}(?:[ -]\d{4}){3}|\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6})(?![^\W_])"  # cards; telephones
)
APART = re.compile(r"[ ./()-]+")
LEAST_ACCOUNT = 8  # characters
_LINK = re.compile(r"(?:https?|ftp)://\S+|(?<![\w.+%-])[\w.+%-]++@[\w.-]+")


def number_text(number: int | float | Decimal | str) -> str:
    value = Decimal(str(number))
    if not value.is_finite() or abs(value.adjusted()) > MAX_NUMBER_CHARS:
        return str(value).lower()
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def numbers_in(chunk: str, *, trusted: bool = False) -> set[str]:
    """Returns the values that a row of digits and signs may stand for: ``1.234`` is 1234 or 1.234. Of a row that is no
    number, such as a version, its pieces; none if the text is trusted."""
    if chunk.isascii() and chunk.isdigit() and chunk[0] != "0" and len(chunk) <= MAX_NUMBER_CHARS:
        return {chunk}
    found: set[str] = set()
    pieces = chunk.split(" ")
    if len(chunk) > MAX_NUMBER_CHARS:
        return found.union(*(numbers_in(piece, trusted=trusted) for piece in pieces)) if len(pieces) > 1 else found
    if "e" in chunk:
        return (
            {number_text(chunk.replace(",", "."))} if not re.search("[ '’_]", chunk) and _is_decimal(chunk) else found
        )
    if _GROUPED.fullmatch(chunk):
        signs = [sign for sign in chunk if not sign.isdigit()]
        digits = re.sub(r"\D", "", chunk)
        behind = len(chunk) - chunk.rfind(signs[-1]) - 1
        if len(set(signs)) > 1:
            found.add(number_text(f"{digits[:-behind]}.{digits[-behind:]}"))
        else:
            found.add(number_text(digits))
    if len(pieces) > 1:
        return found.union(*(numbers_in(piece, trusted=trusted) for piece in pieces))
    if _is_decimal(chunk):
        found.add(number_text(chunk.replace(",", ".")))
    return found or {number_text(piece) for piece in re.split(r"\D+", chunk) if piece and not trusted}


def _is_decimal(chunk: str) -> bool:
    return re.fullmatch(r"\d+(?:[.,]\d+)?(?:e[+-]?\d{1,3})?", chunk) is not None


def dates_in(found: re.Match[str]) -> set[str]:
    part = found.groupdict()
    if part["y1"]:
        return _dates((part["y1"], part["m1"], part["d1"]))
    if part["y2"]:
        year = part["y2"] if len(part["y2"]) == 4 else f"20{part['y2']}"
        return _dates((year, part["b"], part["a"]), (year, part["a"], part["b"]))
    number = "3" if part["y3"] else "4"
    return _dates((part[f"y{number}"], _MONTHS[part[f"m{number}"]], part[f"d{number}"]))


def _dates(*readings: tuple[str | int | None, ...]) -> set[str]:
    dates = set()
    for reading in readings:
        try:
            dates.add(date(*(int(part or 0) for part in reading)).isoformat())
        except ValueError:
            continue
    return dates


def _accounts_in(text: str) -> set[str]:
    """Returns an account number without its spaces; also cut where a word behind it may have been taken for its end."""
    whole, groups = "", APART.split(text)
    found = set()
    for number, group in enumerate(groups, 1):
        whole += group
        if number == len(groups) or (len(whole) >= 15 and whole[0].isalpha()):
            found.add(whole)
    return {one for one in found if LEAST_ACCOUNT <= len(one) <= MAX_NUMBER_CHARS}


def _lines_of(text: str, *, trusted: bool) -> set[str]:
    """Returns a line for each value in a text that stands there in another form than values have; of a trusted text,
    for every number that is one."""
    lines: set[str] = set()
    digits = A_NUMBER.search(text)
    if digits is None:
        return lines
    counted = _without_others(text) if trusted else text
    for found in A_NUMBER.finditer(counted, 0 if trusted else digits.start()):
        lines.update(f"{NUMBER}{number}" for number in _numbers_at(found, trusted=trusted))
    for found in A_DATE.finditer(text):
        lines.update(f"{DATE}{day}" for day in dates_in(found))
    for found in _ACCOUNT.finditer(text):
        if APART.search(found[0]):
            lines.update(f"{ACCOUNT}{one}" for one in _accounts_in(found[0]))
    return lines


def _numbers_at(found: re.Match[str], *, trusted: bool) -> Iterator[str]:
    """Yields the values of a number in a text, by what stands around it; but for those that are found as they stand."""
    text, chunk, begin, end = found.string, found[0], found.start(), found.end()
    before = _BEFORE.search(text[max(0, begin - 5) : begin])
    after = _AFTER.match(text[end : end + 5])
    if before is None or after is None:
        return  # part of a name or a hash
    sign = "-" if text[begin - 1 : begin] in ("-", "−") and not text[max(0, begin - 2) : begin - 1].isalnum() else ""
    plain = not trusted and not sign and not before[0] and not after[0]
    if plain and chunk.isdigit() and (chunk[0] != "0" or chunk == "0"):
        return
    as_they_stand = filter(_PLAIN.fullmatch, chunk.split(" ")) if plain else ()
    for number in numbers_in(chunk, trusted=trusted).difference(as_they_stand):
        yield f"{sign}{number}"
        if after[0] == "k":
            yield f"{sign}{number_text(Decimal(number) * 1000)}"


# ACC-1200-7, item/9000, 12:30
_NAME = re.compile(r"(?<!\w)\w++(?:[.,]\w++){0,4}+(?:(?:[-/]|(?<=\d):)\d[\w.,]*)+")


def _without_others(text: str) -> str:
    """Returns a text without the accounts, dates, links and names whose digits are no numbers."""
    text = _ACCOUNT.sub(_end_of_account, text)
    for pattern in (_LINK, A_DATE, _NAME):
        text = pattern.sub(" | ", text)
    return text


def _end_of_account(found: re.Match[str]) -> str:
    """Returns what is left of an account for numbers to be found in: digits behind it that were taken for its end."""
    groups = found[0].split(" ")
    for number in range(1, len(groups) + 1):
        if _is_iban("".join(groups[:number])):
            return " | " + " ".join(groups[number:])
    rest = len("".join(groups[:-1]))  # of a whole account, or a telephone number with a number behind it
    return " | " + (groups[-1] if rest >= (15 if found[0][0].isalpha() else 11) and not found[0][0].isdigit() else "")


def _is_iban(text: str) -> bool:
    if not 15 <= len(text) <= 34 or not (text.isascii() and text.isalnum() and text[:2].isalpha()):
        return False
    return int("".join(str(int(sign, 36)) for sign in text[4:] + text[:4])) % 97 == 1


# Markup inside a line: a word goes on behind it.
_INLINE = (
    r"(?:<!--[^<>]{0,80}-->|</?(?:a|abbr|b|bdi|bdo|big|code|em|font|i|ins|mark|s|small|span|strong|u|wbr)"
    r"(?: [^<>]{0,120})?/?>|\*{1,3}|`)"
)
_MARKED_UP = re.compile(rf"(?<![\w@.+-])[\w@.+-]++(?:{_INLINE}++[\w@.+-]++)++")
_IS_MARKUP = re.compile(_INLINE)


def forms(given: str, *, trusted: bool) -> tuple[list[str], set[str]]:
    """Returns a text as it is searched, and the lines of the values in it."""
    text = normalised(given, trusted=trusted)
    texts = [text]
    if trusted:
        if (written := as_written(given)) != text:
            texts.append(written)
    elif not {"<", "*", "`"}.isdisjoint(text):
        texts += [_IS_MARKUP.sub("", found[0]) for found in _MARKED_UP.finditer(text)]
    return texts, set().union(*(_lines_of(one, trusted=trusted) for one in texts))
