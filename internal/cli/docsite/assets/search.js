// Finds pages by words. The index is read when somebody begins to type.
const up = document.currentScript.dataset.up;
const field = document.getElementById('q');
const found = document.getElementById('found');
const article = document.querySelector('article');
let index;

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  article.hidden = words.length > 0;
  if (words.length === 0) return;
  index ??= (await (await fetch(up + 'search.json')).json()).map(p => ({...p, title: p.Title.toLowerCase(), text: p.Text.toLowerCase()}));
  const hits = index
    .filter(p => words.every(w => p.title.includes(w) || p.text.includes(w)))
    .map(p => ({p, score: words.reduce((s, w) => s + (p.title.includes(w) ? 100 : 0) + Math.min(p.text.split(w).length - 1, 20), 0)}))
    .sort((a, b) => b.score - a.score || a.p.Title.localeCompare(b.p.Title));
  const list = document.createElement('ol');
  for (const {p} of hits.slice(0, 30)) {
    const at = Math.max(0, p.text.indexOf(words.find(w => p.text.includes(w)) ?? '') - 60);
    const link = Object.assign(document.createElement('a'), {href: up + p.Href, textContent: p.Title});
    const text = Object.assign(document.createElement('p'), {textContent: (at > 0 ? '… ' : '') + p.Text.slice(at, at + 180) + ' …'});
    const item = document.createElement('li');
    item.append(link, text);
    list.append(item);
  }
  const count = Object.assign(document.createElement('p'), {textContent: hits.length === 0 ? 'No page has all of these words.' : `${hits.length} ${hits.length === 1 ? 'page' : 'pages'}`});
  found.replaceChildren(count, list);
}

field.addEventListener('input', search);
field.form.addEventListener('submit', e => {
  e.preventDefault();
  found.querySelector('a')?.click();
});
document.addEventListener('keydown', e => {
  if (e.key === '/' && document.activeElement !== field) {
    e.preventDefault();
    field.focus();
  }
});
