import { html, go, readQuery, useAsk, useState, useEffect, State, Subject, subjectFlag, Ref, Field, Check, ActionFields, Terminal, Trouble, Notes, Busy, Empty, More, RuleText, objectName } from "./lib.js";

const page = 100;
const key = (s) => (s.groupName ? "g" : "u") + (s.userName || s.groupName);

// groups puts subjects with the same rules together: a card for each, never a flat list.
export function groups(status) {
  const rules = new Map((status.rules || []).map((r) => [key(r), r.rules || []]));
  const found = new Map();
  const add = (state, subject, wanted, conditions, extra) => {
    const applying = (rules.get(key(subject)) || []).filter(wanted);
    const id = state + JSON.stringify([applying.map((r) => [r.role, r.ruleIndex, r.effect]), conditions, extra || ""]);
    if (!found.has(id)) found.set(id, { id, state, rules: applying, bindings: new Set(), conditions, extra, subjects: [] });
    const group = found.get(id);
    group.subjects.push(subject);
    for (const r of applying) group.bindings.add(objectName(r.binding));
  };
  const allow = (r) => r.effect === "Allow" && !r.condition;
  for (const userName of status.userNames || []) add("yes", { userName }, allow);
  for (const groupName of status.groupNames || []) add("yes", { groupName }, allow);
  for (const c of status.conditional || []) add("if", c, () => true, c.conditions, c.narrowedTo);
  for (const b of status.blockedBy || []) {
    const deny = "rule " + b.rule;
    const id = "denied" + b.rule + b.binding + JSON.stringify(b.conditions || []);
    if (!found.has(id)) found.set(id, { id, state: "denied", rules: [], blocked: b, bindings: new Set(), conditions: b.conditions, subjects: [], extra: deny });
    found.get(id).subjects.push(b);
  }
  const order = { denied: 2, if: 1, yes: 0 };
  // People before the system, and the rules that most have before others.
  const system = (g) => g.subjects.every((s) => (s.userName || s.groupName).startsWith("system:"));
  return [...found.values()].sort((a, b) => order[a.state] - order[b.state] || system(a) - system(b) || b.subjects.length - a.subjects.length);
}

const joined = (old, next) => {
  if (!old) return next;
  const a = old.answer.status, b = next.answer.status, status = { ...b };
  for (const list of ["userNames", "groupNames", "conditional", "blockedBy", "rules"]) status[list] = [...(a[list] || []), ...(b[list] || [])];
  return { ...next, answer: { ...next.answer, status } };
};

export const Condition = ({ of }) => html`<div class="condition">
  ${of.description && html`<p>${of.description}</p>`}
  ${of.condition ? html`<pre class="cel">${of.condition}</pre>` : !of.description && html`<p class="dim">decided by the request alone</p>`}
</div>`;

function Card({ group, q }) {
  const lead = group.rules.find((r) => r.effect === (group.state === "denied" ? "Deny" : "Allow")) || group.rules[0];
  const title = group.blocked ? group.blocked.rule : lead ? lead.rule : group.subjects.some((s) => s.groupName === "system:masters") ? "members of system:masters may do everything" : "no rule of Policy or RBAC";
  return html`<article class=${"card " + group.state} data-state=${group.state}>
    <div class="top"><${State} is=${group.state} word=${group.state === "denied" ? "denied" : group.state === "if" ? "if" : "always"} />
      ${lead && !group.blocked ? html`<h3>${objectName(lead.role)}</h3>` : html`<${RuleText} of=${title} tag="h3" />`}<span class="count">${group.subjects.length.toLocaleString("en")} ${group.subjects.length === 1 ? "subject" : "subjects"}</span></div>
    ${lead && !group.blocked && html`<${RuleText} of=${title} tag="p" />`}
    ${(lead || group.blocked) && html`<p class="origin">
      ${lead && html`<${Ref} of=${lead.role} /> rule ${lead.ruleIndex}`}
      ${group.blocked ? html`through ${group.blocked.binding}` : group.bindings.size === 1 ? html`, through <${Ref} of=${lead.binding} />` : group.bindings.size > 1 ? `, through ${group.bindings.size.toLocaleString("en")} bindings` : ""}</p>`}
    ${(group.conditions || []).filter((c) => c.condition !== "true").map((c) => html`<div class="clause" key=${c.id}><span class="dim">${c.effect === "Deny" ? "unless" : c.effect === "NoOpinion" ? "passed on if" : "if"}</span><${Condition} of=${c} /></div>`)}
    ${group.state === "if" && group.extra && html`<p class="dim">A list is narrowed to <code>${group.extra}</code></p>`}
    <div class="chips"><${More} items=${group.subjects} first=${60} render=${(s) => html`<${Subject} key=${key(s)} of=${s} onClick=${() => go("why", { ...q, subject: subjectFlag(s), filter: "", hideSystem: "" })} />`} /></div>
  </article>`;
}

export function WhoCan({ at, session, world }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("who-can");
  const set = (part) => setQ((old) => ({ ...old, ...part }));
  const question = (from) => ({ verb: from.verb, resource: from.resource, name: from.name || "", subresource: from.subresource || "", namespace: from.namespace || "", filter: from.filter || "", hideSystem: from.hideSystem === "true" || from.hideSystem === true, limit: page });
  useEffect(() => {
    let from = readQuery();
    if (!from.verb || !from.resource) from = { verb: "get", resource: "pods", namespace: session.namespace };
    setQ(from);
    ask(question(from));
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const next = { ...q, hideSystem: q.hideSystem === true || q.hideSystem === "true" ? "true" : "" };
    const before = location.search;
    go("who-can", next);
    if (location.search === before) ask(question(next));
  };
  const status = state.result?.answer.status;
  const cards = status ? groups(status) : [];
  const more = status?.continue;
  return html`<section>
    <h1>Who can?</h1>
    <p class="lead">Everybody whom Policy and RBAC together let do something: always, under a condition, or not because a rule denies it.</p>
    <form class="question" onSubmit=${submit}>
      <${ActionFields} q=${q} set=${set} world=${world} withName />
      <${Field} label="Names with" value=${q.filter} onInput=${(filter) => set({ filter })} width="9rem" placeholder="anything" type="search" />
      <${Check} label="without system:" checked=${q.hideSystem === "true" || q.hideSystem === true} onInput=${(hideSystem) => set({ hideSystem })} />
      <button class="primary">Ask</button>
    </form>
    <${Busy} on=${state.busy} />
    <${Trouble} error=${state.error} retry=${submit} />
    ${status && html`<div class="answer" data-ready=${!state.busy}>
      ${status.evaluationError && cards.length === 0 ? html`<${Empty} title="No answer">${status.evaluationError}<//>` : null}
      ${cards.length === 0 && !status.evaluationError && html`<${Empty} title=${more ? "Nobody on this part of the list" : "Nobody"}>${q.filter ? "Nobody with such a name can." : "Nobody can, and no deny rule is the reason."}<//>`}
      ${cards.map((g) => html`<${Card} key=${g.id} group=${g} q=${q} />`)}
      ${more && html`<p class="onward"><button type="button" onClick=${() => ask({ ...question(q), continue: more }, joined)}>Show more</button>
        <span class="dim">up to ${status.remainingAtMost.toLocaleString("en")} more. Names with… finds one among them.</span></p>`}
      ${status.incomplete && html`<p class="dim">There may be others: ${status.incompleteReason}</p>`}
      <${Notes} notes=${state.result.notes} />
      <${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
