// Ranks the passages of all pages for what is typed. `hiveIndex` (search-index.js) holds what Hive's own BM25 gives each
// passage for each word, and BM25 adds up: the sums are the scores that `hive query` would show. A word that no page has is
// looked for as the shortest one that begins alike.
"use strict";

const MOST = 8;
const ENDING = 3; // letters of a word's ending: "calling" is looked for as "call"

function knownAs(written) {
  const word = written.toLowerCase();
  for (const one of [written, word]) if (Object.hasOwn(hiveIndex.words, one)) return one;
  const all = Object.keys(hiveIndex.words);
  for (let length = word.length; length >= Math.max(ENDING, word.length - ENDING); length--) {
    const alike = all.filter((one) => one.startsWith(word.slice(0, length)));
    if (alike.length) return alike.reduce((a, b) => (b.length < a.length ? b : a));
  }
}

function rank(query) {
  const scores = new Map();
  for (const [word] of query.normalize("NFKC").matchAll(/[\p{L}\p{N}]+(?:['’]\p{L}+)?/gu)) {
    const known = knownAs(word);
    const list = known === undefined ? [] : hiveIndex.postings[hiveIndex.words[known]];
    for (let at = 0; at < list.length; at += 2) scores.set(list[at], (scores.get(list[at]) ?? 0) + list[at + 1]);
  }
  return [...scores].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

function show() {
  const query = document.getElementById("query").value.trim(), found = document.getElementById("found");
  const pages = new Set();
  found.replaceChildren();
  for (const [passage] of rank(query)) {
    const [page, anchor, title, heading, text] = hiveIndex.passages[passage];
    if (pages.has(page + anchor)) continue;
    if (pages.add(page + anchor).size > MOST) break;
    const line = document.createElement("p"), link = document.createElement("a"), small = document.createElement("small");
    link.href = anchor ? `${page}#${anchor}` : page;
    link.textContent = heading ? `${title}: ${heading}` : title;
    small.textContent = text;
    line.append(link, small);
    found.append(line);
  }
  if (query && pages.size === 0) found.textContent = "No page has any of these words.";
  found.hidden = !query;
}

document.getElementById("query").addEventListener("input", show);
document.getElementById("found").addEventListener("click", () => { document.getElementById("found").hidden = true; });
document.addEventListener("keydown", (event) => {
  const field = document.getElementById("query");
  if (event.key === "Escape") document.getElementById("found").hidden = true;
  if (event.key === "Enter" && event.target === field) document.querySelector("#found a")?.click();
  if (event.key === "/" && event.target === document.body) { event.preventDefault(); field.focus(); }
});
