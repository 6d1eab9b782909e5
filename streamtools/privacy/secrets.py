"""Recognises the usual shapes of secrets in texts, numbers and names, and masks them, also in a text that grows.

Each pattern begins at a fixed word or at a boundary and repeats bounded or disjoint classes, so that the time is
linear. Of a growing text everything before the last place where a secret may begin is certain. That place is found from
the end: the last run of characters without blank or quote, with the digits, the name or the opening words before it. At
most `MAX_HELD` characters are held: of a longer match the placeholder is emitted at once, and the rest of it dropped.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..content import PLACEHOLDERS

Redact: TypeAlias = Callable[[str], str]
"""Returns the redacted text. Numbers are passed as text."""

MAX_HELD = 512  # characters of an open match that a growing text holds back
_KEPT_OF_LONG = 300  # characters that stay when a run is longer: the longest beginning that is no match by itself
_END_CHARS = 100  # in which what ends a secret may begin: the last line of a private key, an escape
_MOST_GROUPS = 8  # of digits, in the number of a card
_MOST_OPENING = 256  # of a name and what stands between it and its value; so many stay in sight when they are emitted

_TOKEN = r"[\w+/=~-]+(?:\.[\w+/=~-]+)*"
_MARKS = (  # by which vendors begin their API keys
    r"c?sk-|[rsp]k_(?:live|test)_|whsec_|sq0[ac][ts]p-|FLWSECK(?:_TEST)?-|access-production-(?=[0-9a-f]{8}-)"  # Stripe
    r"|xai-|pplx-|nvapi-|tgp_v1_|tvly-|llx-|pcsk_|lsv2_|wandb_v1_|api_org_|ya29\.|GOCSPX-|fo1_|fm1r_|fm2_|HRKU-|tskey-"
    r"|github_pat_|gl(?:pat|[dr]t|rtr|cbt|ptt|[fi]m?t|agent|oas|soat|ffct)-|pypi-|dckr_[po]at_|CCI(?:PAT|PRJ)_|bkua_"
    r"|dp\.(?:[psc]t|sa|scim|audit)\.|hv[bsr]\.|AGE-SECRET-KEY-|sbp_|sb_secret_|pscale_(?:tkn|pw|oauth)_|PMA[KT]-"
    r"|NR(?:AK|JS|II|AA)-|gl(?:sa|c)_|sntry[siu]_|ddapp_|dt0[cs](?:01|16)\.|phx_|xox[a-eo-s][-.]|xapp-|SG\."
    r"|x(?:keysib|smtpsib)-|lin_(?:api|oauth)_|fig(?:[du]|or|oh)_|CFPAT-|pat-(?:na|eu)\d-"
)
_WORD_MARKS = (  # with which names in programs begin, too: only letters and digits follow
    r"g(?:sk|h[oprsu])_|r8_|fw_|hf_|jina_|e2b_|apify_api_|npm_|rubygems_|CLOJARS_|sgp_|sq[apu]_|pn[bu]_|nfp_|vc[ap]_"
    r"|do[opr]_v1_|ntn_|secret_|sh(?:pat|pca|ppa|pss|ptka)_|tfp_|rzp_live_|napi_|fc-|pul-|key-"
)
_WHOLE = (  # keys that are known by more than their beginning, or have no divider behind it
    r"A[KSBC][IC]A[A-Z0-9]{16}(?![A-Z0-9])|SK[0-9a-f]{32}(?![0-9a-f])|[0-9a-f]{36}NRAL|[0-9a-f]{32}-us\d{1,2}(?!\d)"
    r"|(?:bot)?\d{6,12}:A[\w-]{30,}|[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"
    r"|[\w~.]{3}\dQ~[\w~.-]{31,}|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}|1//0[\w-]{30,}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"
    r"|sha256~[\w-]{43}|(?:AIza|ABSK|dapi|GR1348941|AT[AC]TT3x|ATBB|AKCp|LTAI"
    rf"|LS0tLS1CRUdJTi[\w+/]{{0,30}}(?:FURSBLRVk|VRFIEtFWS|BVEUgS0VZ))(?=[\w.+/=-]{{16}}){_TOKEN}"  # a PEM, in base64
)
_NAMES = (
    r"[aA](?i:(?:pi|ccess|ccount|uth|pp(?:lication)?)[_-]?key|ccess[_-]?key[_-]?id|uthorization)|[tT](?i:oken)"
    r"|[pP](?i:rivate[_-]?key|assw(?:or)?d|assphrase|wd)|[eE](?i:ncryption[_-]?key)|[mM](?i:aster[_-]?key)"
    r"|[sS](?i:ecret(?:[_-]?key)?|ignature|igning[_-]?key|ession[_-]?id|ubscription[_-]?key|ervice[_-]?role[_-]?key)"
    r"|[cC](?i:redentials?|lient[_-]?key[_-]?data)"
)  # the ends of names whose value is a secret
_LINE = r"(?: |\+|%20)[A-Z0-9 +%]{0,60}PRIVATE(?: |\+|%20)KEY(?:(?: |\+|%20)BLOCK)? ?(?:-----|----(?=[^-]))"
_GAP = r"(?:\s|\\{1,4}[nrt]){1,16}"  # in JSON text, too
_IS = rf"""\\{{0,7}}["']?\s{{0,4}}[:=]\s{{0,4}}(?:[|>][-+]?{_GAP})?"""
_SCHEME = r"(?i:bearer|basic|digest|negotiate|token|apikey)"
_UP_TO = r"(?:(?!(?<!\\){})[^\r\n])"  # a quote with as many escapes as that before it
_SLASH = r"\\{0,4}/"
_WORD = r"""[^\s"'\\]{1,64}"""

_END = rf"-----? ?END{_LINE}"
_KEY = re.compile(rf"(?P<private_key>-----? ?BEGIN{_LINE}(?s:.*?)(?:(?P<end>{_END})|\Z))")
_SECRET = re.compile(
    r"(?:(?<=://)|(?<=:\\/\\/)|(?<=:\\\\/\\\\/))"
    r"""(?P<password>[^\s/?#@:"'<>\\]{0,128}:(?P<password_at>)[^\s/?#"'<>\\]{1,256}(?=@))"""
    # The boundary before a word is an escape, too: `\\n` in JSON text, `%3D` in an address.
    r"|(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2}))(?:(?=[\w.+/=:~-]{15})"
    rf"(?:(?P<api_key>(?=[A-Za-z0-9]{{1,8}}[-_.])(?:(?:{_MARKS})(?=[\w.+/=-]{{16}})|(?:{_WORD_MARKS})(?=[A-Za-z0-9]{{16}}))"
    rf"{_TOKEN}|(?=[\w.~/:-]{{20}})(?:{_WHOLE}))|(?P<jwt>eyJ[\w-]{{12,}}(?:\.[\w-]*)*))"
    r"|(?=[bB])(?P<bearer>[bB](?i:earer|asic)\s{1,4}(?=[\w.+/=~-]{20}|[\w.+/=~-]{0,19}\d)(?=[\w.+/=~-]{8})"
    rf"(?P<bearer_at>){_TOKEN})"
    rf"|(?=[hdw])(?P<hook>(?:hooks\.slack(?:-gov)?\.com{_SLASH}(?:services|workflows|triggers)"
    rf"|webhook\.office\.com{_SLASH}webhookb2|discord(?:app)?\.com{_SLASH}api{_SLASH}(?:v\d{{1,2}}{_SLASH})?webhooks)"
    rf"{_SLASH}(?P<hook_at>)(?:[\w@.%+=-]|{_SLASH}){{8,}})"
    rf"|(?=[dm])(?P<netrc>(?:machine{_GAP}{_WORD}|default)(?:{_GAP}(?:login|account){_GAP}{_WORD}){{0,2}}"
    rf"{_GAP}password{_GAP}(?P<netrc_at>)[^\s\"'\\]+)"
    r"|(?P<mail>(?<![\w.+-])(?!(?<=\\)[nrt])[\w.+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}))"
    rf"""|(?=[aAcCeEkKmMpPsStT])(?:(?P<cookie>[cC](?i:ookie){_IS}(?:\\{{0,7}}["'])?(?P<cookie_at>)[^\r\n"'\\]{{3,}})"""
    rf"""|(?P<value>(?:(?:{_NAMES}){_IS}|(?<=[?&])(?i:key|code|auth|sig)=)(?P<quote>\\{{0,7}}["'])?(?P<value_at>)"""
    rf"(?(quote){_UP_TO.format('(?P=quote)')}{{3,}}"
    rf"""|(?:{_SCHEME}\s{{1,4}})?[^\s"'&,;<>(){{}}\[\]\\|]{{6,}})))"""
    r"|(?=\d)(?P<card>(?<![\d.])\d(?:[ -]?\d){12,}+)"
)
_TO_END = r"(?:{})*+(?=[\s\S])"
_REST = {  # the rest of a match that is longer than what is held
    "private_key": rf"(?s:.*?){_END}", "cookie": _TO_END.format(r"""[^\r\n"'\\]"""), "card": _TO_END.format(r"[\d -]"),
    **dict.fromkeys(("api_key", "bearer", "jwt"), _TO_END.format(r"[\w+/=~.-]")),
    **dict.fromkeys(("value", "hook", "netrc"), _TO_END.format(r"""[^\s"'\\]|\\{1,4}/""")),
}  # fmt: skip
_NAMED = re.compile(rf"(?:^|.*[^A-Za-z]|.*[a-z](?=[A-Z]))(?:x-)?(?:{_NAMES}|(?i:(?:set-)?cookie))", re.DOTALL)
_PAGES = frozenset({"page_token", "next_page_token", "next_token", "continuation_token", "pagetoken", "nextpagetoken"})
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/]{16,}|[A-Za-z0-9_-]{16,})={0,2}")
_GROUP = re.compile(r"\d+")

# How a text may end that a secret goes on from, read backwards, or from a name on.
_RUN_BACK = re.compile(r"""\\{0,4}[^\s"'<>\\`]*(?:(?<=/)\\{1,4}[^\s"'<>\\`]*)*""")
_BEGUN = rf"""\\{{0,7}}(?:["'][^\r\n]{{0,3}}|(?:{_SCHEME})?\s{{0,4}})"""
_SIGN = rf"""\\{{0,7}}["']?\s{{0,4}}(?:[:=]\s{{0,4}}(?:[|>][-+]?(?:{_GAP})?)?"""
_OPEN = re.compile(
    rf"(?:(?:{_NAMES}){_SIGN}{_BEGUN})?|[?&](?i:key|code|auth|sig)={_BEGUN}"
    rf"""|[cC](?i:ookie){_SIGN}\\{{0,7}}["']?[^\r\n"'\\]{{0,3}})?|[bB](?i:earer|asic)\s{{0,4}}"""
    rf"|(?:machine(?:{_GAP}{_WORD})?|default)(?:{_GAP}(?:login|account)(?:{_GAP}{_WORD})?){{0,2}}(?:{_GAP}password)?"
    rf"(?:{_GAP})?\\{{0,4}}|-----? ?BEGIN(?: [A-Z0-9 ]{{0,60}}-{{0,5}})?"
    r"|(?<![\d.])\d(?:[ -]?\d){0,40}[ -]?|(?<![A-Za-z0-9])[A-Za-z0-9]{1,40})\Z"
)


def redact_secrets() -> SecretShapes:
    """Returns a policy for `Privacy` that masks likely secrets in texts, numbers, bytes, keys and headers.

    It recognises API keys by their vendors' marks, bearer tokens, JSON Web Tokens, private keys in any form, addresses
    of webhooks, passwords in URLs and netrc files, values named as secrets (``?key=``, ``"password": …``,
    ``OPENAI_API_KEY=…``, ``Authorization: …``), card numbers by their check digit, and mail addresses. It does not
    recognise other secrets, such as names, addresses and passwords in prose.

    >>> redact_secrets()("mail bob@example.org the key sk-abcdefghijklmnopqrst")
    'mail [mail address] the key [api key]'
    """
    return SecretShapes()


class SecretShapes:
    __slots__ = ()

    def __call__(self, text: str) -> str:
        return _masked(text, 0, 0)

    def encoded(self, text: str) -> str:
        """Returns a whole text with those runs of base64 masked, too, that are a text with secrets."""
        return _BASE64.sub(self._decoded, text)

    def _decoded(self, match: re.Match[str]) -> str:
        try:
            found = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4), altchars=b"-_" if "_" in match[0] else None)
            plain = found.decode("ascii")  # an image is none
        except ValueError:
            return match[0]
        return match[0] if self(plain) == plain else PLACEHOLDERS["value"]

    def number(self, value: int | float) -> int | float | str:
        whole = int(value) if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else 0
        return PLACEHOLDERS["card"] if 10**12 <= abs(whole) < 10**19 and _is_card(str(abs(whole))) else value

    def value_of(self, name: str) -> str | None:
        is_secret = len(name) <= 128 and name.lower() not in _PAGES and _NAMED.fullmatch(name)
        return PLACEHOLDERS["value"] if is_secret else None

    def growing(self) -> TextMask:
        return TextMask()


def _masked(text: str, start: int, done: int) -> str:
    out: list[str] = []
    for match in _found(text, start, len(text)):
        done = _mask(match, done, out)
    return "".join((*out, text[done:]))


def _found(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yields what is a secret, in order: private keys, and between them what begins leftmost. A match may end inside
    the name of a secret that follows, so that the next one may begin before its end."""
    keys = list(_KEY.finditer(text, start, end))
    for stop, key in [*((key.start(), key) for key in keys), (end, None)]:
        while (match := _SECRET.search(text, start, stop)) is not None:
            yield match
            start = _opening(text, match.start() + 1, match.end())
        if key is not None:
            yield key
            start = key.end()


def _opening(text: str, start: int, end: int) -> int:
    """Returns where a name or another opening begins that reaches to the end; the end, if there is none."""
    opened = _OPEN.search(text, max(start, end - _MOST_OPENING), end)
    return end if opened is None else opened.start()


def _mask(match: re.Match[str], done: int, out: list[str]) -> int:
    """Appends the text up to the end of a match, masked; returns up to where the text is done."""
    text, kind = match.string, match.lastgroup or ""
    if kind == "card":
        spans = _cards(match)
    else:
        head = match.start(f"{kind}_at") if f"{kind}_at" in _SECRET.groupindex else match.start()
        if kind == "password" and _SECRET.search(text[match.start() : head]):  # the name before it is a secret, too
            head = match.start()
        spans = [(head, match.end())]
    for start, end in spans:
        if end > done:
            out += (text[done:start], PLACEHOLDERS[kind])
            done = end
    return done


def _cards(match: re.Match[str]) -> list[tuple[int, int]]:
    """Returns where in digits in groups there is a series of groups that may be a card's number."""
    digits = match.string
    groups = [found.span() for found in _GROUP.finditer(digits, *match.span())]
    spans: list[tuple[int, int]] = []
    for first, (start, _) in enumerate(groups):
        for _, end in groups[first : first + _MOST_GROUPS]:
            number = digits[start:end].replace(" ", "").replace("-", "") if end - start < 40 else ""
            if not number:
                break
            if _is_card(number):
                begin, last = spans.pop() if spans and start < spans[-1][1] else (start, end)
                spans.append((begin, max(last, end)))
    return spans


def _is_card(digits: str) -> bool:
    """Returns whether 13 to 19 digits begin as a card's number does, and have its check digit (ISO/IEC 7812)."""
    if not (13 <= len(digits) <= 19 and digits[0] in "23456"):
        return False
    even = sum(int(digit) for digit in digits[::-2])
    return (even + sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])) % 10 == 0


# -- a text that grows --


class TextMask:
    """Masks the secrets of one text, fed in deltas cut anywhere. The results joined are the masked text."""

    __slots__ = ("_done", "_dropped", "_from", "_text")

    def __init__(self) -> None:
        self._text = ""  # that is held, with what stays in sight before it
        self._done = 0  # up to where it was emitted
        self._from = 0  # from where on a secret may begin
        self._dropped: re.Pattern[str] | None = None  # what goes on after its placeholder, or the end of a private key

    def feed(self, text: str) -> str:
        self._text += text
        out: list[str] = []
        if self._dropped is None or self._has_ended(self._dropped):
            self._certain(out)
        unseen = min(self._done, self._from) - _MOST_OPENING
        if unseen > 0:
            self._text = self._text[unseen:]
            self._done -= unseen
            self._from -= unseen
        return "".join(out)

    def finish(self) -> str:
        """Returns the rest of a text that is over; again if it is asked again."""
        return "" if self._dropped is not None else _masked(self._text, self._from, self._done)

    def _has_ended(self, dropped: re.Pattern[str]) -> bool:
        end = dropped.match(self._text, self._done)
        if end is None:
            self._done = self._from = max(self._done, len(self._text) - _END_CHARS)
            return False
        self._dropped, self._done = None, end.end()
        self._from = _opening(self._text, self._done - _MOST_OPENING, self._done)
        return True

    def _certain(self, out: list[str]) -> None:
        text, done, size = self._text, self._done, len(self._text)
        # The last run of characters, with the opening words before it.
        run = _RUN_BACK.match(text[max(done, size - 2 * MAX_HELD) :][::-1])
        begin = cut = _opening(text, done, size if run is None else size - run.end())
        if cut == done and size - done <= MAX_HELD:
            return
        kept = size - _KEPT_OF_LONG
        for match in _found(text, self._from, size):
            kind, is_long = match.lastgroup or "", size - match.start() > MAX_HELD
            if match.end() >= cut and (match.start() < cut or is_long):
                # It may go on. Where it is longer than what may be held, it is a secret whatever follows.
                if not is_long:
                    begin = match.start()
                    cut = max(done, begin)
                    break
                if match.end() >= size - 1 and kind in _REST and not match.groupdict().get("end"):
                    if kind == "card":
                        out += (text[done : match.start()], PLACEHOLDERS[kind])
                    else:
                        _mask(match, done, out)
                    quote = match.groupdict().get("quote")
                    rest = _TO_END.format(_UP_TO.format(re.escape(quote))) if quote else _REST[kind]
                    self._dropped = re.compile(rest)
                    self._done, self._from = max(match.start(), size - _END_CHARS), size
                    return
                begin = cut = max(cut, match.end())
            if match.start() >= cut:
                kept = min(kept, match.start())
                break
            done = _mask(match, done, out)
        if size - cut > MAX_HELD:
            begin = cut = max(done, kept)
        out.append(text[done:cut])
        self._done, self._from = max(done, cut), begin
