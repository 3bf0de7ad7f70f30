import { html, api, go, readQuery, useAsk, useState, useEffect, useRef, Area, Field, ActionFields, Terminal, Trouble, Busy, Copy } from "./lib.js";
import { Trace, Verdict } from "./why.js";

const start = `verbs: [create, update]
resourceKinds: [deployments.apps]
when: object.spec.replicas <= 5
description: at most five replicas
`;
const sample = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 7
  selector: {matchLabels: {app: web}}
`;
const roots = { request: [["user", "string"], ["groups", "list(string)"], ["extra", "map(string, list(string))"], ["verb", "string"], ["namespace", "string"], ["name", "string"], ["resource", "string"], ["subresource", "string"]] };

// useCompletion offers the fields of what stands before the cursor, by the server's own schema.
function useCompletion(area, value, write, resource) {
  const [offer, setOffer] = useState(null);
  const seen = useRef({});
  const look = async () => {
    const el = area.current;
    if (!el) return;
    const before = el.value.slice(0, el.selectionStart);
    const match = /(object|oldObject|resource|request)((?:\.\??[A-Za-z0-9_]+)*)\.\??([A-Za-z0-9_]*)$/.exec(before);
    if (!match) return setOffer(null);
    const path = match[2].replace(/\?/g, "").slice(1), key = resource + "|" + match[1] + "|" + path;
    if (!seen.current[key]) {
      if (match[1] === "request") seen.current[key] = path ? [] : roots.request.map(([name, type]) => ({ name, type }));
      else seen.current[key] = await api("fields", { resource, path }).catch(() => []);
    }
    const found = seen.current[key].filter((f) => f.name.toLowerCase().startsWith(match[3].toLowerCase()));
    setOffer(found.length ? { found, typed: match[3], at: 0 } : null);
  };
  const take = (field) => {
    const el = area.current, end = el.selectionStart, begin = end - offer.typed.length;
    write(el.value.slice(0, begin) + field.name + el.value.slice(end));
    setOffer(null);
    requestAnimationFrame(() => { el.focus(); el.setSelectionRange(begin + field.name.length, begin + field.name.length); });
  };
  const keys = (e) => {
    if (!offer) return;
    const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (move) setOffer({ ...offer, at: (offer.at + move + offer.found.length) % offer.found.length });
    else if (e.key === "Enter" || e.key === "Tab") take(offer.found[offer.at]);
    else if (e.key === "Escape") setOffer(null);
    else return;
    e.preventDefault();
  };
  const up = (e) => !["ArrowDown", "ArrowUp", "Enter", "Tab", "Escape", "Shift"].includes(e.key) && look();
  const list = offer && html`<ul class="offer" role="listbox" aria-label="Fields">${offer.found.slice(0, 60).map((f, i) => html`<li key=${f.name} role="option" aria-selected=${i === offer.at} ref=${(el) => i === offer.at && el?.scrollIntoView({ block: "nearest" })}
    onMouseDown=${(e) => { e.preventDefault(); take(f); }}><code>${f.name}</code><span class="type">${f.type}</span><span class="dim">${f.description || ""}</span></li>`)}</ul>`;
  return { list, keys, up };
}

export function Playground({ at, session, world }) {
  const [q, setQ] = useState({ rule: start, object: sample, old: "", verb: "create", resource: "deployments.apps", namespace: session.namespace || "default", user: "edgar", name: "" });
  const [names, setNames] = useState([]);
  const [trouble, setTrouble] = useState(null);
  const [state, ask] = useAsk("playground");
  const area = useRef(null);
  const set = (part) => setQ((old) => ({ ...old, ...part }));
  const completion = useCompletion(area, q.rule, (rule) => set({ rule }), q.resource);
  useEffect(() => {
    const from = readQuery();
    if (from.rule) set(from);
  }, [at]);
  // As you type, after a short rest.
  useEffect(() => {
    const wait = setTimeout(() => ask({ rule: q.rule, user: q.user, verb: q.verb, resource: q.resource, subresource: q.subresource || "", name: q.name || "", namespace: q.namespace || "", object: q.object, old: q.verb === "update" || q.verb === "patch" ? q.old : "" }), 200);
    const link = { ...q };
    if (q.rule.length + q.object.length + q.old.length < 6000) history.replaceState(null, "", "/playground?" + new URLSearchParams(Object.entries(link).filter(([, v]) => v)));
    return () => clearTimeout(wait);
  }, [q]);
  useEffect(() => {
    setNames([]);
    if (!world.resources.some((r) => r.name === q.resource)) return;
    const wait = setTimeout(() => api("objects", { resource: q.resource, namespace: q.namespace || "", name: "" }).then(setNames, () => {}), 250);
    return () => clearTimeout(wait);
  }, [q.resource, q.namespace, world]);
  const pick = async () => {
    setTrouble(null);
    try {
      const { yaml } = await api("object", { resource: q.resource, namespace: q.namespace || "", name: q.name });
      set(q.verb === "update" || q.verb === "patch" ? { old: yaml, object: q.object && q.object !== sample ? q.object : yaml } : { object: yaml });
    } catch (error) {
      setTrouble(error);
    }
  };
  const result = state.result;
  const two = q.verb === "update" || q.verb === "patch";
  return html`<section>
    <h1>Playground</h1>
    <p class="lead">Write a rule and see what it decides, as you type. It exists here only; the engine of the server answers.</p>
    <form class="question" onSubmit=${(e) => e.preventDefault()}>
      <${Field} label="User" value=${q.user} onInput=${(user) => set({ user })} width="9rem" />
      <${ActionFields} q=${q} set=${set} world=${{ ...world, names }} withName />
      <button type="button" disabled=${!q.name || !names.includes(q.name)} onClick=${pick}>Take this object from the cluster</button>
    </form>
    <${Trouble} error=${trouble} />
    <div class="bench">
      <div class="editor"><${Area} label="The rule" value=${q.rule} onInput=${(rule) => set({ rule })} rows=${10} areaRef=${area} onKeyDown=${completion.keys} onKeyUp=${completion.up} />${completion.list}
        <p class="hint">After <code>object.</code> the fields of ${q.resource} are offered, with their types: arrows and Enter.</p></div>
      <div class="editor">${two && html`<${Area} label="The object before" value=${q.old} onInput=${(old) => set({ old })} rows=${7} />`}
        <${Area} label=${two ? "The object after" : "The object"} value=${q.object} onInput=${(object) => set({ object })} rows=${two ? 7 : 13} /></div>
      <div class="outcome" data-ready=${!state.busy && !!result}>
        <${Trouble} error=${state.error} />
        ${result?.problems?.length > 0 && html`<div class="trouble" role="alert"><strong>The rule or the object has a problem</strong>${result.problems.map((p, i) => html`<pre key=${i}>${p}</pre>`)}</div>`}
        ${result?.trace && html`<${Verdict} trace=${result.trace} withObject=${q.object.trim()} /><${Trace} trace=${{ ...result.trace, authorizers: (result.trace.authorizers || []).filter((a) => a.rules?.length > 0) }} />`}
        ${result?.trace && !(result.trace.authorizers || []).some((a) => a.rules?.length > 0) && html`<p class="dim">The rule does not apply to this request: verb, resource or name differ.</p>`}
        <${Busy} on=${state.busy && !result} words="Deciding…" />
      </div>
    </div>
    ${result?.file && html`<details class="file"><summary>As a policy test</summary><p class="row"><${Copy} text=${result.file} label="Copy file" /></p><pre class="yaml">${result.file}</pre></details>`}
    <${Terminal} command=${result?.command} note="with the policy test above as playground.test.yaml" />
  </section>`;
}
