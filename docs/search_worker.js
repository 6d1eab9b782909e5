/* Answers the site's search, in place of Zensical's worker: docs/build_site.py puts it there.

Zensical's own worker wants every word in one section and ranks by the first place of a match. This one ranks pages:
by how near a name of theirs (title, heading, a row of docs/search_words.toml) comes to the phrase, then by their text.
Words match by stem, by prefix, joined or split ("time out", "toolcall"), and by one or two slips of the finger.

In: {type: 0, data: search.json}, then {type: 2, data: {input, page}}. Out: {type: 1}, {type: 3, data: items}. */
"use strict";
const STOP = new Set(
  ("a about after an and any are as at be before but by can do does for from get has have how i if in into is it its " +
    "make me my no not of off on or our should so than that the their them then there this to up use using we what " +
    "when where which while who why will with without you your").split(" "),
);
const NAME = 12, TITLE = 4, HEADING = 2.5, TEXT = 1;  // what a match counts, by its place
const UNKNOWN = 0.8;  // what a word counts that the site does not have
const SECTIONS = 3;  // of one page, at most
const AT_ONCE = 10;  // results, until the reader scrolls
const LONGEST = 16;  // words of a phrase: of a text that was pasted, the first ones
const ENDINGS = [
  [/(?:iz|is)(?:ation|ations|e|es|ed|er|ers|ing)$/, "iz"], [/ations?$|at(?:e|es|ed|ing|or|ors)$/, "at"], [/ies$|ied$/, "y"],
  [/abilit(?:y|ies)$/, "abl"], [/ences?$|enc(?:y|ies)$/, "ent"], [/t(?:or|ors|ion|ions|ive)$/, "t"], [/ions?$/, ""],
  [/(?:ments?|ness|als?|ers?|ors?|ings?|ed|es|s|ly|e)$/, ""],
];
let words, pages, wanted = { phrase: null, items: [] };

function stem(word) {
  if (word.length < 4 || /\d|ss$|us$|is$/.test(word)) return word;
  for (const [ending, instead] of ENDINGS) {
    const base = word.replace(ending, instead);
    if (base === word || base.length < 3 || !/[aeiouy]/.test(base)) continue;
    return base.replace(/at$/, "").replace(/([bdglmnprt])\1$/, "$1").replace(/([^aeiou])i$/, "$1y") || word;
  }
  return word;
}

function tokens(text, each) {
  for (const { 0: found, index } of text.matchAll(/<[^>]*>|&\w+;|[\p{L}\p{N}]+/gu))
    if (!/^[<&]/.test(found)) each(found.normalize("NFKD").toLowerCase(), index, index + found.length);
}

const split = (text) => { const all = []; tokens(text, (word) => all.push(word)); return all; };

function read(text) {  // a field's words by their numbers, and where they stand
  const field = { ids: [], spans: [] };
  tokens(text, (word, start, end) => {
    if (!words.has(word)) words.set(word, { id: words.size, stem: stem(word), pages: new Set() });
    field.ids.push(words.get(word).id);
    field.spans.push([start, end]);
  });
  return field;
}

function prepare({ items }) {
  words = new Map();
  const byPlace = new Map();
  items.forEach((item, id) => {
    const place = item.location.split("#")[0];
    if (!byPlace.has(place)) byPlace.set(place, { place, items: [], names: [], prior: item.prior ?? 1 });
    const page = byPlace.get(place);
    page.items.push({ id, title: read(item.title), path: read((item.path ?? []).join("")), text: read(item.text) });
    const given = item.words?.length ? 1 : page.prior;  // names that somebody has chosen count whole on every page
    const name = (text, weight) => page.names.push({ ids: read(text).ids, weight });
    const whole = item.title.replace(/<[^>]*>/g, "");
    name(whole, item.level === 1 ? given : 0.5 * page.prior);
    if (item.level === 1) whole.split(/[:,;]/).forEach((part) => name(part, given));
    if (item.level === 1 && item.path?.length) name(item.path.at(-1), given);
    (item.words ?? []).forEach((phrase) => name(phrase, 1));
  });
  pages = [...byPlace.values()];
  const byId = [...words.values()];
  pages.forEach((page) => {
    const seen = (ids) => ids.forEach((id) => byId[id].pages.add(page));
    page.names.forEach(({ ids }) => seen(ids));
    page.items.forEach(({ title, text }) => { seen(title.ids); seen(text.ids); });
  });
}

function slips(a, b, most) {  // edits from a to b, a swap of neighbours being one
  let before = [], row = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    if (Math.min(...next) > most) return most + 1;
    [before, row] = [row, next];
  }
  return row[b.length];
}

function rarity(word, size) {  // what a word counts that is on so many pages
  const rare = Math.log(1 + (pages.length - size + 0.5) / (size + 0.5));
  return Math.min(Math.max(rare, 0.4), 3) * (STOP.has(word) ? 0.1 : 1);
}

function term(word) {  // the words of the site that a word of the phrase stands for, and what the match is worth
  const hits = new Map(), root = stem(word), found = new Set();
  const hit = (entry, worth) => { hits.set(entry.id, worth); entry.pages.forEach((page) => found.add(page)); };
  for (const [other, entry] of words) {
    if (other === word) hit(entry, 1);
    else if (entry.stem === root) hit(entry, 0.9);
  }
  if (word.length > 1)
    for (const [other, entry] of words)
      if (!hits.has(entry.id) && other.startsWith(word)) {
        if (hits.size && found.size > 2) hits.set(entry.id, 0.3);
        else hit(entry, 0.7);
      }
  if (!hits.size && word.length > 3) {
    const most = word.length > 7 ? 2 : 1;
    for (const [other, entry] of words)
      if (Math.abs(other.length - word.length) <= most && other[0] === word[0] && slips(word, other, most) <= most) hit(entry, 0.6);
  }
  return { word, hits, weight: hits.size ? rarity(word, found.size) : UNKNOWN };
}

function variants(phrase) {  // the phrase, with neighbours joined and words split where the site knows the result
  const all = [{ words: phrase, worth: 1 }];
  for (let length = 2; length <= 3; length++)
    for (let at = 0; at + length <= phrase.length; at++) {
      const joined = phrase.slice(at, at + length).join("");
      if (words.has(joined)) all.push({ words: [...phrase.slice(0, at), joined, ...phrase.slice(at + length)], worth: 0.95 });
    }
  phrase.forEach((word, at) => {
    for (let cut = 2; cut < word.length - 1; cut++) {
      const parts = [word.slice(0, cut), word.slice(cut)];
      if (parts.every((part) => words.get(part)?.pages.size > 2))
        all.push({ words: [...phrase.slice(0, at), ...parts, ...phrase.slice(at + 1)], worth: words.has(word) ? 0.6 : 0.8 });
    }
  });
  return all;
}

function nearness(terms, ids, weights) {  // 1 if a name is the phrase; less for each word that only one of them has
  let common = 0, all = 0, last = -1, ordered = 0;
  const used = new Set();
  terms.forEach(({ hits, weight }) => {
    let best = 0, where = -1;
    ids.forEach((id, at) => { if (!used.has(at) && (hits.get(id) ?? 0) > best) [best, where] = [hits.get(id), at]; });
    if (where >= 0) { used.add(where); if (where > last) ordered++; last = where; }
    common += best * weight;
    all += weight;
  });
  ids.forEach((id, at) => { if (!used.has(at)) all += weights[id]; });
  return all ? (common / all) * (0.9 + (0.1 * ordered) / terms.length) : 0;
}

function inField(terms, { ids }, long) {  // what each word of the phrase counts in a field
  const counts = new Float64Array(terms.length);
  let close = 0, lastTerm = -2, lastAt = -9;
  ids.forEach((id, at) => terms.forEach(({ hits }, number) => {
    const worth = hits.get(id);
    if (worth === undefined) return;
    counts[number] += worth;
    if (worth > 0.5 && number === lastTerm + 1 && at - lastAt <= 2) close++;
    if (worth > 0.5) [lastTerm, lastAt] = [number, at];
  }));
  const damping = 0.4 + ids.length / long;
  return { counts: counts.map((count) => count / (count + damping)), close: close / (close + 1) };
}

function score(page, terms, weights, exact) {
  const best = new Float64Array(terms.length), whole = terms.reduce((sum, { weight }) => sum + weight, 0);
  const grow = (counts, worth) => counts.forEach((count, at) => { best[at] = Math.max(best[at], count * worth) + 0.1 * Math.min(best[at], count * worth); });
  let close = 0;
  const items = page.items.map((item, at) => {
    const title = inField(terms, item.title, 20), text = inField(terms, item.text, 200);
    grow(title.counts, at ? HEADING : TITLE);
    grow(text.counts, TEXT);
    close = Math.max(close, text.close, 2 * title.close);
    const own = terms.reduce((sum, { weight }, n) => sum + weight * (HEADING * title.counts[n] + TEXT * text.counts[n]), 0);
    return { item, own: own + whole * (text.close + 2 * title.close) };
  });
  let name = 0;
  page.names.forEach(({ ids, weight }) => { name = Math.max(name, weight * nearness(terms, ids, weights) ** 2); });
  page.names.forEach(({ ids }) => grow(inField(terms, { ids }, 20).counts, HEADING));
  const matched = terms.reduce((sum, { weight }, at) => sum + (best[at] > 0.02 ? weight : 0), 0) / whole;
  if (matched < 0.34) return { sum: 0 };
  const body = terms.reduce((sum, { weight }, at) => sum + weight * best[at], 0) / whole;
  const prior = exact && page.place.startsWith("reference/") ? 1 : page.prior;
  return { sum: matched * (prior * (body + close) + NAME * name), items };
}

function answer(input) {
  const plain = input.replace(/&(?:amp|lt|gt);/g, " "), phrase = split(plain).slice(0, LONGEST);
  if (!phrase.length) return [];
  const weights = [];
  for (const [word, { id, pages: { size } }] of words) weights[id] = rarity(word, size);
  const terms = new Map(), once = (word) => terms.get(word) ?? terms.set(word, term(word)).get(word);
  const tries = variants(phrase).map(({ words, worth }) => ({ terms: words.map(once), worth })), exact = /[_(]|\w[a-z][A-Z]/.test(plain);
  const ranked = pages.map((page) => {
    const all = tries.map(({ terms, worth }) => {
      const found = score(page, terms, weights, exact);
      return { ...found, sum: worth * found.sum, terms };
    });
    return all.reduce((best, one) => (one.sum > best.sum ? one : best));
  });
  ranked.sort((one, other) => other.sum - one.sum);
  return ranked.filter(({ sum }) => sum > Math.max(0, ranked[0].sum / 20)).flatMap(({ items, terms }) =>
    items.map((one, at) => ({ ...one, own: one.own + (at ? 0 : 0.2) })).filter(({ own }) => own > 0)
      .sort((one, other) => other.own - one.own).slice(0, SECTIONS).map(({ item }) => shown(item, terms)));
}

function shown(item, terms) {  // as the site's dialog wants it: where in which field to underline
  const matches = ["title", "path", "text"].map((field) => {
    const ranges = [];
    item[field].ids.forEach((id, at) => {
      const worth = Math.max(...terms.map(({ hits }) => hits.get(id) ?? 0)), [start, end] = item[field].spans[at];
      const prefix = Math.max(...terms.map(({ word, hits }) => (hits.has(id) ? word.length : 0)));
      if (worth > 0) ranges.push({ start, end, value: worth < 0.65 && worth > 0.5 ? -1 : Math.min(prefix, end - start) });
    });
    return { id: item.id, field, value: { highlight: { ranges } }, score: 0 };
  });
  return { id: item.id, matches: matches.filter(({ value }) => value.highlight.ranges.length) };
}

self.onmessage = ({ data: { type, data } }) => {
  try {
    if (type === 0) { prepare(data); self.postMessage({ type: 1 }); }
    if (type !== 2) return;
    const input = typeof data.input === "string" ? data.input : "", from = data.page?.from ?? 0;
    if (wanted.phrase !== input) wanted = { phrase: input, items: answer(input) };
    const total = wanted.items.length, page = (start) => ({ id: 0, size: AT_ONCE, from: start });
    const pagination = {
      total,
      prev: from > 0 ? page(from - AT_ONCE) : undefined,
      next: from + AT_ONCE < total ? page(from + AT_ONCE) : undefined,
    };
    self.postMessage({ type: 3, data: { items: wanted.items.slice(from, from + AT_ONCE), query: {}, aggregations: [], pagination } });
  } catch (error) {
    console.error(error);
    self.postMessage({ type: 4 });
  }
};
