// Places of texts in an item's value, as LangGraph's stores write them.
import { expect, it } from "vitest";
import { textsAt } from "../../src/engine/texts-at.js";

const VALUE = {
  text: "a",
  n: 7,
  none: null,
  meta: { title: "b", tags: ["c", "d"] },
  facts: [{ text: "e", by: { name: "f" } }, { other: 1 }, { text: "g" }],
};

it.each([
  ["$", [JSON.stringify(VALUE)]],
  ["text", ["a"]],
  ["$.text", ["a"]],
  ["n", ["7"]],
  ["none", []],
  ["nothing.there", []],
  ["toString", []],
  ["text.length", []],
  ["meta", ['{"title":"b","tags":["c","d"]}']],
  ["meta.title", ["b"]],
  ["meta.tags[*]", ["c", "d"]],
  ["meta.tags[0]", ["c"]],
  ["meta.tags[-1]", ["d"]],
  ["meta.tags[5]", []],
  ["meta.tags[x]", []],
  ["text[*]", []],
  ["facts[*].text", ["e", "g"]],
  ["facts[*].by.name", ["f"]],
  ["facts[2].text", ["g"]],
  ["meta.*", ["b", '["c","d"]']],
  ["{text,meta.title}", ["a", "b"]],
  ["facts[*].{text, by.name}", ["e", "f", "g"]],
  ["", [JSON.stringify(VALUE)]],
])("%s", (path, texts) => {
  expect(textsAt(VALUE, path)).toEqual(texts);
});
