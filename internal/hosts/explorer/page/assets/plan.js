import { html, api, go, readQuery, useAsk, useState, useEffect, State, Subject, subjectFlag, Check, Area, Terminal, Trouble, Notes, Busy, Empty, More } from "./lib.js";

const example = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: edgar}]
`;
const strength = { No: 0, Denied: 0, If: 1, Yes: 2 };
// direction says in one word what a change means.
export function direction(c) {
  if (strength[c.after] > strength[c.before]) return "gains";
  if (strength[c.after] < strength[c.before]) return "loses";
  return { wider: "gains", narrower: "loses" }[c.relation] || "changes";
}
const titles = { gains: "gain", loses: "lose", changes: "change" };
const marks = { gains: "+", loses: "−", changes: "~" };

// byRule makes one card of the changes of a role in one direction.
export function byRule(changes) {
  const found = new Map();
  for (const c of changes) {
    const rule = c.rule.replace(/ rule \d+$/, ""), id = direction(c) + "|" + rule;
    if (!found.has(id)) found.set(id, { id, rule, way: direction(c), changes: [] });
    found.get(id).changes.push(c);
  }
  return [...found.values()].sort((a, b) => "gains loses changes".indexOf(a.way) - "gains loses changes".indexOf(b.way));
}
const what = (c) => c.path || c.resource + (c.apiGroup ? "." + c.apiGroup : "") + (c.name ? "/" + c.name : "");
const where = (c) => (c.path ? "" : { "*": "everywhere", "(others)": "in every namespace" }[c.namespace] || c.namespace || "cluster") + (c.exceptNamespaces ? " except " + c.exceptNamespaces.join(", ") : "");
const who = (c) => c.subjects || [c.subject];

// lines puts verbs and resources together that change in the same way. What holds for every name need not be said for
// single ones.
export function lines(changes) {
  const found = new Map();
  const id = (c) => JSON.stringify([who(c), c.moreSubjects, c.namespace, c.exceptNamespaces, c.before, c.after, c.relation, c.why, !!c.witness]);
  const all = new Set(changes.filter((c) => !c.name).map((c) => id(c) + c.verb + what(c)));
  for (const c of changes) {
    if (c.name && all.has(id(c) + c.verb + what({ ...c, name: "" }))) continue;
    if (!found.has(id(c))) found.set(id(c), { ...c, verbs: new Set(), things: new Set() });
    found.get(id(c)).verbs.add(c.verb);
    found.get(id(c)).things.add(what(c));
  }
  return [...found.values()];
}

const Line = ({ c }) => {
  const things = [...c.things], relation = { equivalent: "means the same", wider: "wider than before", narrower: "narrower than before", neither: "neither wider nor narrower", unknown: "cannot be compared" }[c.relation];
  return html`<li class="change">
    <div class="chips"><${More} items=${who(c)} first=${5} render=${(s) => html`<${Subject} key=${subjectFlag(s)} of=${s} />`} />${c.moreSubjects > 0 && html`<span class="dim">and ${c.moreSubjects.toLocaleString("en")} others</span>`}</div>
    <p><strong>${[...c.verbs].join(", ")}</strong> ${things.slice(0, 4).join(", ")}${things.length > 4 ? ` and ${things.length - 4} more` : ""} <span class="dim">${where(c)}</span></p>
    <p class="turn"><${State} is=${(c.before || "No").toLowerCase()} /><span aria-label="becomes">→</span><${State} is=${(c.after || "No").toLowerCase()} />${relation && c.before === "If" && c.after === "If" && html`<span class="dim">${relation}</span>`}${c.why && html`<span class="dim">${c.why}</span>`}</p>
    ${c.witness && html`<details><summary>An object that shows it${c.witness.user ? ", for " + c.witness.user : ""}</summary>
      ${c.witness.oldObject && html`<p class="dim">before</p><pre class="yaml">${JSON.stringify(c.witness.oldObject, null, 2)}</pre><p class="dim">after</p>`}
      ${c.witness.object && html`<pre class="yaml">${JSON.stringify(c.witness.object, null, 2)}</pre>`}</details>`}
  </li>`;
};

export function Plan({ at, session }) {
  const [yaml, setYAML] = useState("");
  const [remove, setRemove] = useState(false);
  const [over, setOver] = useState(false);
  const [applied, setApplied] = useState({});
  const [state, ask, reset] = useAsk("plan");
  useEffect(() => {
    const from = readQuery();
    setRemove(from.delete === "true");
    if (from.yaml) {
      setYAML(from.yaml);
      ask({ yaml: from.yaml, delete: from.delete === "true" });
    }
  }, [at]);
  const write = (text) => {
    setYAML(text);
    setApplied({});
    if (state.result) reset({});
  };
  const submit = (e) => {
    e?.preventDefault();
    setApplied({});
    const before = location.search;
    // What is too long for an address is not in it.
    go("plan", yaml.length <= 6000 ? { yaml, delete: remove ? "true" : "" } : {});
    if (location.search === before) ask({ yaml, delete: remove });
  };
  const drop = async (e) => {
    e.preventDefault();
    setOver(false);
    const texts = await Promise.all([...e.dataTransfer.files].map((f) => f.text()));
    if (texts.length) write(texts.join("\n---\n"));
  };
  const apply = async () => {
    setApplied({ busy: true });
    try {
      setApplied({ done: (await api("apply", { yaml, delete: false })).applied });
    } catch (error) {
      setApplied({ error });
    }
  };
  const plan = state.result?.answer;
  const cards = plan ? byRule(plan.changes) : [];
  const count = (way) => plan.tally[titles[way]].toLocaleString("en");
  return html`<section>
    <h1>Plan</h1>
    <p class="lead">What would change if this were applied: who gains, who loses, and an object that shows it. Nothing is written.</p>
    <form class=${"question" + (over ? " over" : "")} onSubmit=${submit} onDragOver=${(e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <${Area} label="Roles and bindings, as YAML: paste, or drop files here" value=${yaml} onInput=${write} rows=${9} placeholder=${example} />
      <${Check} label="as if they were deleted" checked=${remove} onInput=${(on) => { setRemove(on); reset({}); }} />
      ${!yaml && html`<button type="button" class="quiet" onClick=${() => write(example)}>Take the example</button>`}
      <button class="primary" disabled=${!yaml.trim()}>Plan</button>
    </form>
    <${Busy} on=${state.busy} words="Reading the policy and comparing…" />
    <${Trouble} error=${state.error} retry=${submit} />
    ${plan && html`<div class="answer" data-ready=${!state.busy}>
      <div class="tally" role="status">${["gains", "loses", "changes"].map((way) => html`<div key=${way} class=${way}><span class="mark" aria-hidden="true">${marks[way]}</span><strong>${count(way)}</strong> ${titles[way]}${way === "changes" ? "" : " something"}</div>`)}</div>
      ${cards.length === 0 && html`<${Empty} title="Nothing changes">Everybody may do exactly what he may do now.<//>`}
      ${cards.map((g) => html`<article class=${"card " + g.way} key=${g.id}><div class="top"><span class=${"way " + g.way}><span aria-hidden="true">${marks[g.way]}</span> ${g.way}</span><h3>${g.rule}</h3><span class="count">${g.changes.length} ${g.changes.length === 1 ? "change" : "changes"}</span></div>
        <ul class="changes"><${More} items=${lines(g.changes)} first=${8} render=${(c, i) => html`<${Line} key=${i} c=${c} />`} /></ul></article>`)}
      ${plan.rejected?.length > 0 && html`<div class="trouble"><strong>A server would refuse</strong>${plan.rejected.map((r, i) => html`<p key=${i}>${r.message}</p>`)}</div>`}
      ${plan.withoutEffect?.length > 0 && html`<div class="card"><div class="top"><h3>Without effect</h3></div><ul class="notes">${plan.withoutEffect.map((r, i) => html`<li key=${i}>${r.rule || r.role || ""} ${r.why || r.reason || ""}</li>`)}</ul></div>`}
      ${session.allowApply && !remove && html`<p class="row"><button type="button" class="primary" disabled=${applied.busy || applied.done} onClick=${apply}>Apply this</button><span class="dim">as ${session.user}</span></p>
        ${applied.done && html`<p role="status" class="done">Applied: ${applied.done.join(", ")}</p>`}<${Trouble} error=${applied.error} />`}
      ${!session.allowApply && html`<p class="dim">This explorer is read-only. Start it with --allow-apply to apply a plan.</p>`}
      <${Notes} notes=${state.result.notes} />
      <${Terminal} command=${state.result.command} note="The change is read from standard input." />
    </div>`}
  </section>`;
}
