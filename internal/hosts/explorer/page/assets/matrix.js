import { html, go, readQuery, useAsk, useState, useEffect, State, Subject, subjectText, subjectFlag, Field, Check, Terminal, Trouble, Notes, Busy, Empty, More, inRow, soft } from "./lib.js";

const list = (text) => (text || "").split(",").map((s) => s.trim()).filter(Boolean);
const short = { deletecollection: "delete all" };

const system = (s) => { const { kind, name } = subjectText(s); return name.startsWith("system:") || (kind === "account" && name.startsWith("kube-system/")); };
const placeOf = (row) => (row.namespaces.length === 1 && row.namespaces[0] === "" ? "cluster" : row.namespaces[0] === "*" ? "everywhere" : row.namespaces.join(", "));

// Row is one line of the same access: many subjects, namespaces and resources at once.
function Row({ row, verbs, q, place }) {
  const [wide, setWide] = useState(false);
  const resources = wide ? row.resources : row.resources.slice(0, 4);
  const why = (verb) => go("why", { verb, resource: row.resources[0].split("/")[0], subresource: row.resources[0].split("/")[1] || "", namespace: ["", "*", "(others)"].includes(row.namespaces[0]) ? list(q.namespaces)[0] || "" : row.namespaces[0], subject: subjectFlag(row.subjects[0]) });
  const whoElse = () => go("who-can", { verb: verbs.find((v) => row.access[v]), resource: row.resources[0].split("/")[0], subresource: row.resources[0].split("/")[1] || "", namespace: q.namespaces });
  return html`<tr class="line">
    <th scope="row"><div class="chips"><${More} items=${row.subjects} first=${3} render=${(s) => html`<${Subject} key=${subjectFlag(s)} of=${s} />`} />
      ${row.more > 0 && html`<button type="button" class="quiet more" onClick=${whoElse}>and ${row.more.toLocaleString("en")} others</button>`}</div></th>
    ${!place && html`<td>${placeOf(row)}</td>`}
    <td class="what">${soft(resources.join(", "))}${row.resources.length > resources.length && html` <button type="button" class="quiet more" onClick=${() => setWide(true)}>and ${row.resources.length - resources.length} more</button>`}</td>
    ${verbs.map((v) => {
      const is = (row.access[v] || "No").toLowerCase();
      return html`<td class="cell" key=${v} data-verb=${v}>${is === "no" ? html`<span class="nothing"><span aria-hidden="true">–</span><span class="sr">no</span></span>` : html`<button type="button" class="bare" onClick=${() => why(v)} aria-label=${v + ": " + is + ", why?"} title="Why?"><${State} is=${is} /></button>`}</td>`;
    })}</tr>`;
}

// byRole collapses the lines of the same roles into one that opens.
export function byRole(rows, hide) {
  const found = new Map();
  for (const row of rows) {
    const subjects = hide ? row.subjects.filter((s) => !system(s)) : row.subjects;
    if (subjects.length === 0) continue;
    const id = (row.roles || []).join(", ") || "no role";
    if (!found.has(id)) found.set(id, { id, rows: [], subjects: new Map(), resources: new Set(), more: 0 });
    const group = found.get(id);
    group.rows.push({ ...row, subjects });
    for (const s of subjects) group.subjects.set(subjectFlag(s), s);
    for (const r of row.resources) group.resources.add(r);
    group.more = Math.max(group.more, row.more || 0); // they may be the same on every line
  }
  return [...found.values()];
}

function Group({ group, verbs, q, place, open: first }) {
  const [open, set] = useState(first);
  const subjects = [...group.subjects.values()];
  return html`<tbody class=${open ? "open" : ""}>
    <tr class="group"><th scope="rowgroup" colspan=${verbs.length + (place ? 2 : 3)}>
      <button type="button" class="bare fold" aria-expanded=${open} onClick=${() => set(!open)}><span class="turn" aria-hidden="true">${open ? "▾" : "▸"}</span><strong>${group.id}</strong></button>
      <span class="dim">${group.more > 0 ? "at least " : ""}${(subjects.length + group.more).toLocaleString("en")} ${subjects.length + group.more === 1 ? "subject" : "subjects"}, ${group.resources.size} ${group.resources.size === 1 ? "resource" : "resources"}</span>
      ${!open && html`<div class="chips"><${More} items=${subjects} first=${6} render=${(s) => html`<${Subject} key=${subjectFlag(s)} of=${s} />`} /></div>`}
    </th></tr>
    ${open && html`<${More} items=${group.rows} first=${40} wrap=${inRow} words="lines" render=${(row, i) => html`<${Row} key=${i} row=${row} verbs=${verbs} q=${q} place=${place} />`} />`}
  </tbody>`;
}

// Rows is a matrix as a table, by role.
export function Rows({ matrix, q, hide }) {
  const groups = byRole(matrix.rows, hide);
  const places = new Set(groups.flatMap((g) => g.rows.map(placeOf)));
  const place = places.size === 1 ? [...places][0] : ""; // the same on every line needs no column
  const few = groups.reduce((n, g) => n + g.rows.length, 0) <= 14;
  if (groups.length === 0) return html`<${Empty} title="Nothing">Nothing is allowed, and nothing is denied.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Matrix"><table class="grid matrix"><caption class="sr">Who may do what${place && " in " + place}, by role</caption>
    <thead><tr><th scope="col">Who</th>${!place && html`<th scope="col">Where</th>`}<th scope="col">Resources</th>${matrix.verbs.map((v) => html`<th scope="col" key=${v} class="verb">${short[v] || v}</th>`)}</tr></thead>
    <${More} items=${groups} first=${40} wrap=${(b) => html`<tbody>${inRow(b)}</tbody>`} words="roles" render=${(g) => html`<${Group} key=${g.id + few} group=${g} verbs=${matrix.verbs} q=${q} place=${place} open=${few} />`} /></table></div>`;
}

const Rights = ({ state, q }) => {
  const rights = state.result?.answer.rights || [];
  return html`<div class="answer" data-ready=${!state.busy}>
    <p class="hint">You may not read all policy, which a matrix needs. These are your own rights${q.namespaces ? " in " + q.namespaces : ""}, as the server tells them.</p>
    <div class="scroll"><table class="grid"><caption class="sr">Your rights</caption><thead><tr><th>Resources</th><th>Names</th><th>Verbs</th><th>Access</th></tr></thead><tbody>
      <${More} items=${rights} first=${60} wrap=${inRow} render=${(r, i) => html`<tr key=${i}><th scope="row">${soft(r.resource) || (r.nonResourceURLs || []).join(", ")}</th><td>${(r.resourceNames || []).join(", ") || "all"}</td><td>${r.verbs.join(", ")}</td><td><${State} is=${r.condition ? "if" : "yes"} />${r.condition && html` <code>${r.condition}</code>`}</td></tr>`} />
    </tbody></table></div>
    <${Terminal} command=${state.result?.command} /></div>`;
};

export function Matrix({ at, session, world }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("matrix");
  const [own, askOwn] = useAsk("rights");
  const set = (part) => setQ((old) => ({ ...old, ...part }));
  const run = (from) => ask({ subjects: list(from.subjects), namespaces: list(from.namespaces), resources: list(from.resources) });
  useEffect(() => {
    let from = readQuery();
    if (!from.subjects && !from.namespaces) from = { namespaces: session.namespace };
    setQ(from);
    run(from);
  }, [at]);
  const forbidden = state.error && /forbidden|cannot list|may not/i.test(state.error.message);
  useEffect(() => {
    if (forbidden) askOwn({ namespace: list(q.namespaces)[0] || session.namespace });
  }, [forbidden, at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("matrix", q);
    if (location.search === before) run(q);
  };
  const matrix = state.result?.answer;
  const hide = q.system !== "true" && !q.subjects;
  return html`<section>
    <h1>Matrix</h1>
    <p class="lead">What a subject may do, or what everybody may do in a namespace. Lines with the same rights are one line.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Subjects" value=${q.subjects} onInput=${(subjects) => set({ subjects })} width="14rem" placeholder="everybody" />
      <${Field} label="Namespaces" value=${q.namespaces} onInput=${(namespaces) => set({ namespaces })} list=${world.namespaces} width="12rem" placeholder="everywhere" />
      <${Field} label="Resources" value=${q.resources} onInput=${(resources) => set({ resources })} list=${world.resources.map((r) => r.name)} width="14rem" placeholder="all" />
      <${Check} label="without system:" checked=${hide} onInput=${(on) => set({ system: on ? "" : "true" })} />
      <button class="primary">Ask</button>
    </form>
    <p class="hint">Several go with commas: <code>edgar, group:team-a</code>. <${State} is="yes" /> always · <${State} is="if" /> under a condition, or for some names · <${State} is="no" /> nobody allows it · <${State} is="denied" /> by a deny rule</p>
    <${Busy} on=${state.busy || own.busy} words="Reading the policy and deciding every cell…" />
    ${forbidden ? html`<${Trouble} error=${own.error} />${own.result && html`<${Rights} state=${own} q=${q} />`}` : html`<${Trouble} error=${state.error} retry=${submit} />`}
    ${matrix && html`<div class="answer" data-ready=${!state.busy}>
      <${Rows} matrix=${matrix} q=${q} hide=${hide} />
      <${Notes} notes=${state.result.notes} />
      <${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
