"""Recognises the usual shapes of secrets in texts, numbers and names, and masks them, also in a text that grows.

In: a text, whole or in deltas, or a number. Out: the same with a placeholder in the place of each secret. Each pattern
begins at a fixed word or at a boundary and repeats bounded or disjoint classes, so that the time is linear.

Of a growing text everything before the last place where a secret may begin is certain. That place is found from the
end: the last run of characters without blank or quote, with the digits, the name or the opening words before it. At
most `MAX_HELD` characters are held: of a longer match the placeholder is emitted at once, and the rest of it dropped.
"""

from __future__ import annotations

import base64
import math
import re

MAX_HELD = 512
"""Characters of an open match that a growing text holds back."""
_KEPT_OF_LONG = 300  # characters that stay when a run is longer: the longest beginning that is no match by itself
_KEY_END_CHARS = 80  # of the line that ends a private key
_MOST_GROUPS = 8  # of digits, in the number of a card
_MOST_OPENING = 120  # of a name and what stands between it and its value, or of the line that begins a private key

_PREFIXES = (
    "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_",  # OpenAI; Stripe
    "AIza", "ya29.", "GOCSPX-", "ABSK",  # Google; Bedrock
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "dckr_pat_",
    "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "hf_", "gsk_", "xai-", "r8_", "pplx-", "fw_",
    "nvapi-", "dapi", "SG.", "dop_v1_", "doo_v1_", "tvly-", "lin_api_", "ntn_", "secret_", "pcsk_", "lsv2_",
    "key-", "api_org_",
)  # fmt: skip
"""The beginnings of API keys, by which their vendors mark them."""
_NAMES = (
    r"api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|secret[_-]?key|secret|token|passw(?:or)?d|passwd|pwd"
    r"|passphrase|authorization|credentials?|x-amz-signature|signature|session[_-]?id"
)
"""The ends of names whose value is a secret."""
_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_TOKEN = r"[\w+/=~-]+(?:\.[\w+/=~-]+)*"
_IS = r"""\\{0,4}["']?\s{0,4}[:=]\s{0,4}\\{0,4}["']?"""
_PLAIN = r"""[^\s"'&,;<>(){}\[\]\\|]"""

_SECRET = re.compile(
    "|".join(
        (
            rf"(?P<private_key>{_BEGIN}(?s:.*?)(?:{_END}|\Z))",
            rf"(?P<api_key>(?<![A-Za-z0-9])(?:(?:{'|'.join(map(re.escape, _PREFIXES))})(?=[\w.+/=-]{{16}}){_TOKEN}"
            r"|A[KSBC][IC]A[A-Z0-9]{16}(?![A-Z0-9])|SK[0-9a-f]{32}(?![0-9a-f])|\d{8,10}:AA[\w-]{30,}))",
            r"(?P<jwt>(?<![A-Za-z0-9])eyJ[\w-]{12,}(?:\.[\w-]*)*)",
            rf"(?P<bearer>(?<![A-Za-z0-9])(?i:bearer|basic)\s{{1,4}}(?=[\w.+/=~-]{{20}}|[\w.+/=~-]{{0,19}}\d)(?=[\w.+/=~-]{{8}})"
            rf"(?P<bearer_at>){_TOKEN})",
            r"""(?P<password>(?<=://)[^\s/?#@:"'<>]{0,128}:(?P<password_at>)[^\s/?#"'<>]{1,256}(?=@))""",
            rf"""(?P<cookie>(?i:cookie){_IS}(?P<cookie_at>)[^\r\n"'\\]{{3,}})""",
            rf"""(?P<value>(?:(?i:{_NAMES}){_IS}|(?<=[?&])(?i:key|code|auth|sig)=)(?P<value_at>)"""
            rf"""(?:(?<=["'])[^"'\\\r\n]{{3,}}|(?:(?i:bearer|basic|digest|negotiate|token|apikey)\s{{1,4}})?{_PLAIN}{{6,}}))""",
            r"(?P<card>(?<![\d.])\d(?:[ -]?\d){12,}+)",
            r"(?P<mail>(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24})",
        )
    )
)
_WORDS = {
    "private_key": "[private key]", "api_key": "[api key]", "jwt": "[token]", "bearer": "[token]",
    "password": "[password]", "cookie": "[cookie]", "value": "[secret]", "mail": "[mail address]",
}  # fmt: skip
_CARD = "[card number]"
PLACEHOLDERS = frozenset({*_WORDS.values(), _CARD})
"""The words that stand for secrets."""
_SWALLOWED = {
    "api_key": re.compile(r"[\w+/=~.-]*"),
    "jwt": re.compile(r"[\w.-]*"),
    "bearer": re.compile(r"[\w+/=~.-]*"),
    "cookie": re.compile(r"""[^\r\n"'\\]*"""),
    "value": re.compile(r"""[^\s"'\\\r\n]*"""),
    "quoted": re.compile(r"""[^"'\\\r\n]*"""),
    "card": re.compile(r"[\d -]*"),
}
"""The rest of a match that is longer than what is held."""
_NAMED = re.compile(rf"(?:^|.*[^A-Za-z]|.*[a-z](?=[A-Z]))(?:x-)?(?i:{_NAMES}|(?:set-)?cookie|apikey)", re.DOTALL)
_PAGES = frozenset({"page_token", "next_page_token", "next_token", "continuation_token", "pagetoken", "nextpagetoken"})
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/]{16,}|[A-Za-z0-9_-]{16,})={0,2}")
_GROUP = re.compile(r"\d+")

# How a text may end that a secret goes on from, read backwards, or from a name on.
_RUN_BACK = re.compile(r"""[^\s"'<>\\`]*""")
_DIGITS_BACK = re.compile(r"[ -]?(?:\d[ -]?)+")
_OPEN = re.compile(
    rf"""(?:(?i:{_NAMES})\\{{0,4}}["']?\s{{0,4}}(?:[:=]\s{{0,4}}\\{{0,4}}(?:["'][^"'\\\r\n]{{0,3}}|"""
    r"""(?i:bearer|basic|digest|negotiate|token|apikey)?\s{0,4})?)?"""
    r"""|(?i:cookie)\\{0,4}["']?\s{0,4}(?:[:=]\s{0,4}["']?[^\r\n"'\\]{0,3})?"""
    r"|(?i:bearer|basic)\s{1,4}|-----BEGIN [A-Z0-9 ]{0,60}-{0,5})\Z"
)
_BEGINS = re.compile(_BEGIN)
_ENDS = re.compile(_END)


def redact_secrets() -> SecretShapes:
    """Returns a policy for `Privacy` that masks what looks like a secret, in texts, numbers, bytes, keys and headers.

    It knows API keys by their vendors' prefixes, bearer tokens, JSON Web Tokens, private keys, passwords in URLs,
    values named as secrets (``?key=``, ``"password": …``, ``OPENAI_API_KEY=…``, ``Authorization: …``), card numbers
    by their check digit, and mail addresses. Other secrets, such as names, addresses and passwords in prose, it
    cannot see.

    >>> redact_secrets()("mail bob@example.org the key sk-abcdefghijklmnopqrst")
    'mail [mail address] the key [api key]'
    """
    return SecretShapes()


class SecretShapes:
    """Masks secrets by their shapes; made by `redact_secrets`."""

    __slots__ = ()

    def __call__(self, text: str) -> str:
        """Returns a whole text with its secrets masked."""
        return _SECRET.sub(_masked, text)

    def encoded(self, text: str) -> str:
        """Returns a whole text with those runs of base64 masked, too, that are a text with secrets."""
        return _BASE64.sub(self._decoded, text)

    def _decoded(self, match: re.Match[str]) -> str:
        try:
            found = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4), altchars=b"-_" if "_" in match[0] else None)
            plain = found.decode("ascii")  # an image is none
        except ValueError:
            return match[0]
        return match[0] if self(plain) == plain else _WORDS["value"]

    def number(self, value: int | float) -> int | float | str:
        """Returns a number, or a placeholder if it is that of a card."""
        whole = int(value) if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else 0
        return _CARD if 10**12 <= abs(whole) < 10**19 and _is_card(str(abs(whole))) else value

    def value_of(self, name: str) -> str | None:
        """Returns the placeholder for the value of a field or header with this name; None unless it is a secret's."""
        is_secret = len(name) <= 128 and name.lower() not in _PAGES and _NAMED.fullmatch(name)
        return _WORDS["value"] if is_secret else None

    def growing(self) -> TextMask:
        """Returns the mask of a text that grows."""
        return TextMask()


def _masked(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "card":
        return _cards_masked(match[0])
    has_head = kind in ("bearer", "password", "cookie", "value")
    head = match.string[match.start() : match.start(f"{kind}_at")] if has_head else ""
    return head + _WORDS[kind]


def _cards_masked(digits: str) -> str:
    """Returns digits in groups, with each series of groups masked that may be a card's number."""
    groups = [found.span() for found in _GROUP.finditer(digits)]
    pieces: list[str] = []
    done = open_to = 0  # up to where all is decided; the end of a number that begins before
    for first, (start, _) in enumerate(groups):
        for _, end in groups[first : first + _MOST_GROUPS]:
            number = digits[start:end].replace(" ", "").replace("-", "") if end - start < 40 else ""
            if not number:
                break
            if _is_card(number):
                if start >= open_to:
                    pieces += [digits[done:start], _CARD]
                done = open_to = max(open_to, end)
    return "".join((*pieces, digits[done:]))


def _is_card(digits: str) -> bool:
    """Returns whether 13 to 19 digits begin as a card's number does, and have its check digit (ISO/IEC 7812)."""
    if not (13 <= len(digits) <= 19 and digits[0] in "23456"):
        return False
    even = sum(int(digit) for digit in digits[::-2])
    return (even + sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])) % 10 == 0


# -- a text that grows -------------------------------------------------------------------------------------------------


class TextMask:
    """Masks the secrets of one text, fed in deltas cut anywhere. The results joined are the masked text."""

    __slots__ = ("_dropped", "_held", "_in_key")

    def __init__(self) -> None:
        self._held = ""
        self._dropped: re.Pattern[str] | None = None  # the characters of a match that is dropped
        self._in_key = False  # inside a private key

    def feed(self, text: str) -> str:
        """Takes a delta; returns the text that is certain now."""
        text = self._rest(self._held + text)
        if self._in_key:
            self._held = text[-_KEY_END_CHARS:]
            return ""
        opened = _open_key(text)
        if opened is not None:
            self._in_key, self._held = True, text[opened.end() :][-_KEY_END_CHARS:]
            return _SECRET.sub(_masked, text[: opened.start()]) + _WORDS["private_key"]
        out: list[str] = []
        cut = self._certain(text, out)
        self._held = text[cut:]
        return "".join(out)

    def finish(self) -> str:
        """Ends the text; returns its rest."""
        held, self._held = self._held, ""
        return "" if self._in_key else _SECRET.sub(_masked, held)

    def _rest(self, text: str) -> str:
        """Returns the text after the match that is being dropped."""
        if self._in_key:
            end = _ENDS.search(text)
            self._in_key = end is None
            return text if end is None else text[end.end() :]
        if self._dropped is not None:
            found = self._dropped.match(text)
            end_of = found.end() if found is not None else 0
            if end_of < len(text):
                self._dropped = None
            return text[end_of:]
        return text

    def _certain(self, text: str, out: list[str]) -> int:
        """Masks what is certain; returns where the rest begins."""
        cut, size = _last_beginning(text), len(text)
        if cut == 0 and size <= MAX_HELD:
            return 0
        done = 0
        for match in _SECRET.finditer(text):
            kind = match.lastgroup or ""
            is_long = size - match.start() > MAX_HELD
            if match.end() >= cut and (match.start() < cut or is_long):
                # It may go on. Where it is longer than what may be held, it is a secret whatever follows.
                if not is_long:
                    cut = match.start()
                    break
                if match.end() >= size - 1 and kind in _SWALLOWED:
                    out += (text[done : match.start()], _CARD if kind == "card" else _masked(match))
                    is_quoted = kind == "value" and text[match.start("value_at") - 1] in "\"'"
                    self._dropped = _SWALLOWED["quoted" if is_quoted else kind]
                    return size
                cut = max(cut, match.end())
            if match.start() >= cut:
                break
            out += (text[done : match.start()], _masked(match))
            done = match.end()
        if size - cut > MAX_HELD:
            cut = max(done, size - _KEPT_OF_LONG)
        out.append(text[done:cut])
        return max(done, cut)


def _open_key(text: str) -> re.Match[str] | None:
    """Returns the beginning of a private key that does not end."""
    begin = _BEGINS.search(text)
    while begin is not None:
        end = _ENDS.search(text, begin.end())
        if end is None:
            return begin
        begin = _BEGINS.search(text, end.end())
    return None


def _last_beginning(text: str) -> int:
    """Returns the last place from which on a secret may stand that is not recognised before more text comes."""
    size = len(text)
    back = text[-2 * MAX_HELD :][::-1]
    run = _RUN_BACK.match(back)
    start = size - (0 if run is None else run.end())
    # The groups of a card's number have blanks between them, and may follow on other characters.
    if start == size or text[start].isdigit():
        digits = _DIGITS_BACK.match(back, size - start)
        if digits is not None:
            run = _RUN_BACK.match(back, digits.end())
            start = size - (digits.end() if run is None else run.end())
    opened = _OPEN.search(text, max(0, start - _MOST_OPENING), start)
    # A name may begin inside a run, as in `OPENAI_API_KEY = `: its value is what matters.
    return start if opened is None else min(start, opened.start())
