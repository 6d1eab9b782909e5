// What can be taken away from a call: a test with its arguments, its record, the address of its row.

// What cannot be a name in the test: keywords, and what it imports itself.
const PYTHON_WORDS = new Set(
  "__debug__ inspect pytest False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);
const isPythonName = (text) => /^[A-Za-z_]\w*$/.test(text) && !PYTHON_WORDS.has(text);
const TOKENS = /"(?:[^"\\]|\\.)*"|[-+.\w]+|[{}[\]:,]/g;

// A string of Python's; its escapes are those of `shown`.
const pythonText = (text) => shown(JSON.stringify(text)).replaceAll("\ufffd", "\\ufffd");

// Python for a JSON text: numbers stay as they are written, since a script would round the large ones.
function pythonOf(json) {
  JSON.parse(json);
  const words = { true: "True", false: "False", null: "None", ":": ": ", ",": ", " };
  return json
    .match(TOKENS)
    .map((token) => (token[0] === '"' ? pythonText(JSON.parse(token)) : (words[token] ?? token)))
    .join("");
}

// The members of an object as [name, JSON text]; null for anything else.
function membersOf(json) {
  const tokens = json.match(TOKENS);
  if (tokens?.[0] !== "{") return null;
  const members = [];
  let depth = 0,
    name = null,
    value = "";
  for (const token of tokens) {
    if ("}]".includes(token)) depth -= 1;
    const ends = (token === "," && depth === 1) || (token === "}" && depth === 0);
    if (ends && name !== null) {
      members.push([name, value]);
      [name, value] = [null, ""];
    } else if (depth >= 1 && !ends) {
      if (name === null) name = JSON.parse(token);
      else if (value !== "" || token !== ":") value += token;
    }
    if ("{[".includes(token)) depth += 1;
  }
  return [...new Map(members)]; // of a name that is there twice, the last
}

function argumentsInPython(text) {
  let members;
  try {
    JSON.parse(text || "{}");
    members = membersOf(text || "{}");
  } catch {
    members = null;
  }
  if (members === null) return null;
  return members.every(([name]) => isPythonName(name))
    ? members.map(([name, value]) => `${name}=${pythonOf(value)}`).join(", ")
    : `**${pythonOf(text)}`;
}

function testOf(call) {
  const name = isPythonName(call.name) ? call.name : "the_tool",
    given = argumentsInPython(argumentsOf(call)),
    raises = call.outcome !== "ok" && call.tries.length > 0,
    lines = ["import inspect", "", "import pytest", "", `from your_tools import ${name}`, "", "", "@pytest.mark.anyio"];
  const about = [call.argument, call.outcome === "ok" ? null : call.outcome].filter(Boolean).join(" ");
  const words = about
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, 40);
  lines.push(`async def test_${name}${words ? `_${words}` : ""}() -> None:`);
  if (!argumentsOf(call)) lines.push("    # its arguments are not recorded");
  if (name !== call.name) lines.push(`    # the tool is called ${pythonText(call.name)}`);
  if (given === null) {
    lines.push(`    # its arguments were no object: ${pythonText(argumentsOf(call))}`, "    raise NotImplementedError");
  } else {
    const deep = raises ? "        " : "    ";
    if (raises) lines.push("    with pytest.raises(Exception):");
    lines.push(
      `${deep}result = ${name}(${given})`,
      `${deep}if inspect.isawaitable(result):`,
      `${deep}    result = await result`,
    );
    if (!raises) lines.push(expectationOf(call));
  }
  return lines.join("\n") + "\n";
}

const JSON_TYPES = ["dict", "list", "int", "float", "bool", "NoneType", "none"];

// The page knows what the model was given: the value itself, if that is a text or plain JSON.
function expectationOf({ result, resultType }) {
  if (result === undefined) return "    assert result is not None";
  if (resultType === "str") return `    assert result == ${pythonText(result)}`;
  try {
    if (JSON_TYPES.includes(resultType ?? "none")) return `    assert result == ${pythonOf(result)}`;
  } catch {
    return `    assert result == ${pythonText(result)}`;
  }
  return `    assert result is not None  # ${shown(JSON.stringify(result))}`;
}

function jsonOf(call) {
  let given = argumentsOf(call);
  try {
    given = JSON.parse(given);
  } catch {
    // it stays a text
  }
  const { callId, name, outcome, result, error, toModel, resultType } = call,
    micros = ranFor(call);
  const record = { call_id: callId, name, arguments: given, outcome, result, result_type: resultType, error };
  Object.assign(record, { told_to_model: toModel, attempts: call.tries.length, ran_for_ms: micros / 1000 });
  const units = (text) => [...Array(text.length).keys()].map((at) => text.charCodeAt(at).toString(16).padStart(4, "0"));
  return JSON.stringify(record, null, 2).replace(HIDDEN, (text) =>
    units(text)
      .map((unit) => `\\u${unit}`)
      .join(""),
  );
}

async function copy(text, button) {
  const say = (word) => {
    button.textContent = word;
    byId("status").textContent = word;
  };
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say(copyBySelection(text) ? "Copied" : "Not allowed here");
  }
  setTimeout(() => (button.textContent = before), 1500);
}

// A page of http: from another machine has no clipboard; a selection can be copied all the same.
function copyBySelection(text) {
  const field = make("textarea", { class: "hidden", "aria-hidden": "true", tabindex: "-1" });
  document.body.append(field);
  field.value = text;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

function copyButtons(call) {
  const button = (word, text) =>
    make("button", { type: "button", class: "copy", onclick: (event) => copy(text(), event.currentTarget) }, word);
  return make(
    "div",
    { class: "copies", role: "group", "aria-label": "Copy" },
    button("Copy as test", () => testOf(call)),
    button("as JSON", () => jsonOf(call)),
    button("link", () => location.href),
  );
}
