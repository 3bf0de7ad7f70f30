import { html, api, go, readQuery, useAsk, useState, useEffect, State, Field, Terminal, Trouble, Notes, Busy, Empty, More, inRow } from "./lib.js";

const nameOf = (e) => e.resource + (e.apiGroup ? "." + e.apiGroup : "") + " " + (e.namespace ? e.namespace + "/" : "") + e.name;

// inside names the roles or bindings of a container that changed.
export function inside(e) {
  const field = { policies: "roles", policybindings: "roleBindings" }[e.resource];
  if (!field) return "";
  const was = e.before?.[field] || {}, is = e.after?.[field] || {};
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort();
  return names.filter((n) => JSON.stringify(was[n]) !== JSON.stringify(is[n])).map((n) => (n in was ? (n in is ? "~" : "-") : "+") + n).join(" ");
}

const effect = { Yes: "yes", If: "if", No: "no", Denied: "denied" };

// Undone is the plan of taking one change back, and the button that does it.
function Undone({ revision, namespace, session, done }) {
  const [state, ask] = useAsk("undo");
  const [made, setMade] = useState({});
  useEffect(() => ask({ revision, namespace }), [revision]);
  const plan = state.result?.answer;
  const make = () => {
    setMade({ busy: true });
    api("undo", { revision, namespace, make: true }).then(() => { setMade({ done: true }); done(); }, (error) => setMade({ error }));
  };
  return html`<div class="answer" data-ready=${!state.busy} data-undo=${revision}>
    <${Busy} on=${state.busy} words="Planning…" /><${Trouble} error=${state.error} />
    ${plan && html`<p>If change ${revision} were taken back:</p>
      ${plan.changes.length === 0 ? html`<p class="dim">Nobody would gain or lose anything.</p>` : html`<div class="scroll"><table class="grid"><caption class="sr">What would change</caption>
        <thead><tr><th scope="col">Who</th><th scope="col">What</th><th scope="col">Where</th><th scope="col">Before</th><th scope="col">After</th></tr></thead><tbody>
        <${More} items=${plan.changes} first=${20} wrap=${inRow} render=${(c, i) => html`<tr key=${i}><th scope="row">${(c.subjects || [c.subject]).map((s) => s.user || s.serviceAccount || "group " + s.group).join(", ")}</th>
          <td>${c.verb} ${c.path || c.resource + (c.apiGroup ? "." + c.apiGroup : "")}</td><td>${c.namespace || "cluster"}</td><td><${State} is=${effect[c.before]} /></td><td><${State} is=${effect[c.after]} /></td></tr>`} /></tbody></table></div>`}
      ${session.allowApply && !made.done && html`<p class="row"><button type="button" class="primary" disabled=${made.busy} onClick=${make}>Undo it</button></p>`}
      ${made.done && html`<p role="status">Change ${revision} was taken back.</p>`}<${Trouble} error=${made.error} />
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />`}
  </div>`;
}

export function History({ at, session, world }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("history");
  const [open, setOpen] = useState(0);
  const question = (from) => ({ namespace: from.namespace || "", user: from.user || "", since: from.since || "" });
  useEffect(() => {
    const from = readQuery();
    setQ(from);
    setOpen(0);
    ask(question(from));
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("history", q);
    if (location.search === before) ask(question(q));
  };
  const answer = state.result?.answer;
  const entries = [...(answer?.entries || [])].reverse();
  return html`<section>
    <h1>History</h1>
    <p class="lead">Who changed which policy when, the latest first. Each change can be taken back, as a plan first.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Namespace" value=${q.namespace} onInput=${(namespace) => setQ((old) => ({ ...old, namespace }))} list=${world.namespaces} width="12rem" placeholder="all" />
      <${Field} label="User" value=${q.user} onInput=${(user) => setQ((old) => ({ ...old, user }))} width="12rem" placeholder="everybody" />
      <${Field} label="Since" value=${q.since} onInput=${(since) => setQ((old) => ({ ...old, since }))} width="9rem" placeholder="2h, 3d, a day" />
      <button class="primary">Ask</button>
    </form>
    <${Busy} on=${state.busy} /><${Trouble} error=${state.error} retry=${submit} />
    ${answer && html`<div class="answer" data-ready=${!state.busy}>
      ${entries.length === 0 ? html`<${Empty} title="No changes">No change of policy that you may see is recorded.<//>`
      : html`<div class="scroll" tabindex="0" role="region" aria-label="Changes"><table class="grid"><caption class="sr">Changes of policy</caption>
        <thead><tr><th scope="col">Time</th><th scope="col">User</th><th scope="col">Change</th><th scope="col">Inside</th><th scope="col"></th></tr></thead><tbody>
        <${More} items=${entries} first=${50} wrap=${inRow} words="changes" render=${(e) => html`<tr key=${e.revision} data-revision=${e.revision}><td class="num">${e.time.replace("T", " ").slice(0, 19)}</td><td>${e.user}</td><td>${e.verb} ${nameOf(e)}</td><td>${inside(e)}</td>
          <td>${e.revision > 0 && html`<button type="button" class="quiet" aria-expanded=${open === e.revision} aria-label=${"Undo change " + e.revision} onClick=${() => setOpen(open === e.revision ? 0 : e.revision)}>Undo…</button>`}</td></tr>
          ${open === e.revision && html`<tr key=${"undo" + e.revision}><td colspan="5"><${Undone} revision=${e.revision} namespace=${e.namespace || ""} session=${session} done=${() => ask(question(q))} /></td></tr>`}`} /></tbody></table></div>`}
      ${answer.partial && html`<p class="hint">Only changes of policy that you may read are shown.</p>`}
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
