// What all screens share. Everything that comes from the server is shown as text: nothing here makes HTML of strings.
import { h } from "./vendor/preact.mjs";
import { useState, useEffect, useRef, useCallback } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);
export { useState, useEffect, useRef, useCallback };

// ---- Session: the key comes in the fragment of the address, once, and is kept for this very origin.
const keyName = "proviso-explorer-key";
if (location.hash.startsWith("#key=")) {
  localStorage.setItem(keyName, location.hash.slice(5));
  history.replaceState(null, "", location.pathname + location.search);
}

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const request = (name, question, signal) => fetch("/api/" + name, {
  method: "POST", signal, credentials: "same-origin",
  headers: { "Content-Type": "application/json", "X-Proviso-Key": localStorage.getItem(keyName) || "" },
  body: JSON.stringify(question || {}),
}).catch((err) => {
  if (err.name === "AbortError") throw err;
  throw new Problem("The explorer itself does not answer. Has it ended? Run proviso explorer again.", 0);
});

export async function api(name, question, signal) {
  const response = await request(name, question, signal);
  const body = await response.json().catch(() => ({ error: "The answer cannot be read." }));
  if (!response.ok) throw new Problem(body.error || response.statusText, response.status);
  return body;
}

// stream calls back with every line.
export async function stream(name, question, signal, each) {
  const response = await request(name, question, signal);
  if (!response.ok) throw new Problem((await response.json()).error, response.status);
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) each(JSON.parse(line));
  }
}

// ---- The address is the question: any explorer that opens it asks the same.
export const readQuery = () => Object.fromEntries(new URLSearchParams(location.search));
export function pathOf(screen, question) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(question || {})) if (value !== "" && value != null && value !== false) query.set(name, value);
  const text = query.toString();
  return "/" + screen + (text ? "?" + text : "");
}
export function go(screen, question, replace) {
  const path = pathOf(screen, question);
  if (path !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", path);
  dispatchEvent(new Event("popstate"));
}

// useAsk runs the newest question and drops the answers of older ones.
export function useAsk(name) {
  const [state, set] = useState({});
  const running = useRef(null);
  const ask = useCallback(async (question, merge) => {
    running.current?.abort();
    const mine = (running.current = new AbortController());
    set((old) => ({ ...old, busy: true }));
    try {
      const result = await api(name, question, mine.signal);
      set((old) => ({ result: merge ? merge(old.result, result) : result, question }));
      requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("shown:" + name))); // what is measured
    } catch (error) {
      if (error.name !== "AbortError") set({ error, question });
    }
  }, [name]);
  useEffect(() => () => running.current?.abort(), []);
  return [state, ask, set];
}

// ---- Words and marks. No state is told by its colour alone.
export const states = {
  yes: { mark: "✓", word: "yes" }, if: { mark: "◐", word: "if" }, no: { mark: "–", word: "no" }, denied: { mark: "✕", word: "denied" },
  unknown: { mark: "?", word: "unknown" }, skipped: { mark: "·", word: "not asked" },
};
export const State = ({ is, word, title }) => {
  const s = states[is] || states.unknown;
  return html`<span class=${"state " + is} title=${title}><span class="mark" aria-hidden="true">${s.mark}</span>${word || s.word}</span>`;
};

export function subjectText(s) {
  if (s.groupName || s.group) return { kind: "group", name: s.groupName || s.group };
  const name = s.userName || s.user || "";
  if (s.serviceAccount) return { kind: "account", name: s.serviceAccount };
  if (name.startsWith("system:serviceaccount:")) return { kind: "account", name: name.slice(22).replace(":", "/") };
  return { kind: "user", name };
}
// subjectFlag is the subject as commands take it.
export function subjectFlag(s) {
  const { kind, name } = subjectText(s);
  return kind === "group" ? "group:" + name : kind === "account" ? "serviceaccount:" + name : name;
}
const icons = { user: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zm-6 6c0-3 2.7-4.5 6-4.5s6 1.5 6 4.5z", group: "M5.5 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1 13c0-2.6 2-4 4.5-4S10 10.4 10 13zm10-5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zm.5 5H15c0-2.3-1.6-3.6-3.7-3.6", account: "M3 3h10v7H3zM6 13h4M8 10v3M6 6.5h.01M10 6.5h.01" };
export const Subject = ({ of, onClick }) => {
  const { kind, name } = subjectText(of);
  const word = { user: "User", group: "Group", account: "Service account" }[kind];
  const inner = html`<svg class=${"icon " + kind} viewBox="0 0 16 16" aria-hidden="true"><path d=${icons[kind]} /></svg><span class="sr">${word} </span><span class="name">${name}</span>`;
  return onClick
    ? html`<button type="button" class="chip" title=${word + " " + name + ": why?"} onClick=${onClick}>${inner}</button>`
    : html`<span class="chip" title=${word}>${inner}</span>`;
};

export const objectName = (o) => (o.namespace ? o.namespace + "/" : "") + o.name;
export const isRBAC = (o) => o.apiGroup === "rbac.authorization.k8s.io";
export const Ref = ({ of }) => html`<span class="ref"><span class="kind">${isRBAC(of) ? "RBAC " : ""}${of.kind}</span> ${objectName(of)}</span>`;

// ruleText takes a rule apart: its description is what people read first.
export function ruleText(rule) {
  const match = /^(.*) \(([^()]+)\)$/s.exec(rule);
  return match ? { title: match[2], text: match[1] } : { title: rule, text: "" };
}
export const RuleText = ({ of, tag }) => {
  const { title, text } = ruleText(of);
  return html`<span class="ruletext">${h(tag || "strong", null, title)}${text && html`<span class="text" title=${text}>${text}</span>`}</span>`;
};

// ---- Parts of forms.
let ids = 0;
export const useID = () => useState(() => "f" + ++ids)[0];

export function Field({ label, value, onInput, list, width, placeholder, hidden, type, required }) {
  const id = useID();
  return html`<span class=${"field" + (hidden ? " hidden" : "")} style=${{ "--w": width || "10rem" }}>
    <label for=${id}>${label}</label>
    <input id=${id} type=${type || "text"} value=${value || ""} placeholder=${placeholder} required=${required} autocomplete="off" autocapitalize="off" spellcheck=${false}
      list=${list ? id + "-list" : undefined} onInput=${(e) => onInput(e.currentTarget.value)} />
    ${list && html`<datalist id=${id + "-list"}>${list.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}
  </span>`;
}
export function Choice({ label, value, options, onInput }) {
  const id = useID();
  return html`<span class="field" style=${{ "--w": "9rem" }}><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(e) => onInput(e.currentTarget.value)}>${options.map(([v, text]) => html`<option key=${v} value=${v} selected=${v === value}>${text}</option>`)}</select></span>`;
}
export const Check = ({ label, checked, onInput }) => html`<label class="check"><input type="checkbox" checked=${!!checked} onChange=${(e) => onInput(e.currentTarget.checked)} /> ${label}</label>`;

export function Area({ label, value, onInput, rows, placeholder, areaRef, onKeyDown, onKeyUp }) {
  const id = useID();
  return html`<span class="field wide"><label for=${id}>${label}</label>
    <textarea id=${id} ref=${areaRef} rows=${rows || 10} value=${value} placeholder=${placeholder} spellcheck=${false} autocapitalize="off"
      onInput=${(e) => onInput(e.currentTarget.value)} onKeyDown=${onKeyDown} onKeyUp=${onKeyUp}></textarea></span>`;
}

export function Copy({ text, label }) {
  const [done, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return;
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-live="polite">${done ? "Copied" : label || "Copy"}</button>`;
}

export const Terminal = ({ command, note }) => command && html`<div class="terminal" role="group" aria-label="The same in a terminal">
  <code><span class="prompt" aria-hidden="true">$ </span>${command}</code>
  <span class="actions"><${Copy} text=${command} label="Copy command" /><${Copy} text=${location.pathname + location.search} label="Copy path" /></span>
  ${note && html`<p class="dim">${note}</p>`}
</div>`;

export const Trouble = ({ error, retry }) => error && html`<div class="trouble" role="alert">
  <strong>${error.status === 401 ? "No session" : error.status === 502 ? "The server does not answer" : error.status === 0 ? "The explorer has ended" : "This could not be answered"}</strong>
  <p>${error.message}</p>
  ${retry && error.status !== 401 && html`<button type="button" onClick=${retry}>Try again</button>`}
</div>`;

// Notes are what a command says on standard error; what the page shows anyway is left out.
export const Notes = ({ notes }) => {
  const shown = (notes || []).filter((n) => !/^There may be up to|hidden\.$|^proviso: $/.test(n));
  return shown.length > 0 && html`<ul class="notes" aria-label="Notes">${shown.map((n) => html`<li key=${n}>${n}</li>`)}</ul>`;
};
export const Busy = ({ on, words }) => html`<p class=${"busy" + (on ? " on" : "")} role="status" aria-live="polite">${on ? words || "Asking the server…" : ""}</p>`;
export const Empty = ({ title, children }) => html`<div class="empty"><strong>${title}</strong><p>${children}</p></div>`;

// More shows the first of a long list, and the others when asked.
export function More({ items, first, render, words, wrap }) {
  const [shown, set] = useState(first);
  const left = items.length - shown;
  const button = html`<button type="button" class="quiet more" onClick=${() => set(shown + Math.max(first, 100))}>and ${left.toLocaleString("en")} more${words ? " " + words : ""}</button>`;
  return html`${items.slice(0, shown).map(render)}${left > 0 && (wrap ? wrap(button) : button)}`;
}
// inRow puts the button of a long table into a row.
export const inRow = (button) => html`<tr><td colspan="20">${button}</td></tr>`;

export const verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

// ActionFields are the parts of a question that most screens ask: verb, resource, name, namespace.
export function ActionFields({ q, set, world, withName }) {
  const known = world.resources.find((r) => r.name === q.resource);
  return html`
    <${Field} label="Verb" value=${q.verb} onInput=${(verb) => set({ verb })} list=${known?.verbs?.length ? [...new Set([...known.verbs])] : verbs} width="8rem" required />
    <${Field} label="Resource" value=${q.resource} onInput=${(resource) => set({ resource })} list=${world.resources.map((r) => r.name)} width="14rem" placeholder="pods, deployments.apps, /metrics" required />
    ${withName && html`<${Field} label="Name" value=${q.name} onInput=${(name) => set({ name })} width="10rem" placeholder="any" list=${world.names} />`}
    ${known?.subresources?.length > 0 && html`<${Field} label="Subresource" value=${q.subresource} onInput=${(subresource) => set({ subresource })} list=${known.subresources} width="8rem" placeholder="none" />`}
    <${Field} label="Namespace" value=${q.namespace} onInput=${(namespace) => set({ namespace })} list=${world.namespaces} width="10rem" placeholder="all" hidden=${known && !known.namespaced} />`;
}

// soft lets a name be broken where it has a joint.
export const soft = (text) => text && text.split(/(?<=[./])/).map((part, i) => (i ? [html`<wbr />`, part] : part));
