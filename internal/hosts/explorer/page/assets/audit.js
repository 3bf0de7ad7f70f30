import { html, go, readQuery, stream, useState, useEffect, useRef, State, Field, Choice, Terminal, Trouble, Empty, verbs } from "./lib.js";

const keep = 500;
export function decisionOf(e) {
  const said = (e.annotations || {})["authorization.k8s.io/decision"];
  const code = e.responseStatus?.code || 0;
  if (said === "forbid" || code === 403) return "no";
  return said === "allow" ? (code >= 400 ? "failed" : "yes") : code === 401 ? "no" : "unknown";
}
const words = { yes: "allowed", no: "refused", failed: "failed", unknown: "no word" };
const marks = { yes: "yes", no: "denied", failed: "if", unknown: "unknown" };
const reasonOf = (e) => (e.annotations || {})["authorization.k8s.io/reason"] || e.responseStatus?.message || "";
const what = (e) => (e.objectRef?.resource ? e.objectRef.resource + (e.objectRef.apiGroup ? "." + e.objectRef.apiGroup : "") + (e.objectRef.subresource ? "/" + e.objectRef.subresource : "") : e.requestURI.split("?")[0]);

export function Audit({ at, world }) {
  const [q, setQ] = useState(readQuery());
  const [state, setState] = useState({ events: [] });
  const running = useRef(null);
  const set = (part) => setQ((old) => ({ ...old, ...part }));
  const stop = () => {
    running.current?.abort();
    running.current = null;
    setState((s) => ({ ...s, live: false }));
  };
  const start = (from) => {
    stop();
    const mine = (running.current = new AbortController());
    setState({ events: [], live: true, notes: [] });
    stream("audit", { user: from.user || "", verb: from.verb || "", resource: from.resource || "" }, mine.signal, (line) => setState((s) => {
      if (line.command) return { ...s, command: line.command };
      if (line.note) return { ...s, notes: [...(s.notes || []), line.note] };
      if (line.end != null) return { ...s, live: false, ended: line.end };
      return { ...s, events: [line.event, ...s.events].slice(0, keep), seen: (s.seen || 0) + 1 };
    })).catch((error) => error.name !== "AbortError" && setState((s) => ({ ...s, error, live: false })));
  };
  useEffect(() => {
    const from = readQuery();
    setQ(from);
    start(from);
    return stop;
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("audit", q);
    if (location.search === before) start(q);
  };
  const shown = state.events.filter((e) => !q.decision || decisionOf(e) === q.decision);
  const why = (e) => go("why", { verb: e.verb, resource: e.objectRef?.resource ? e.objectRef.resource + (e.objectRef.apiGroup ? "." + e.objectRef.apiGroup : "") : e.requestURI.split("?")[0], subresource: e.objectRef?.subresource || "", name: e.verb === "create" ? "" : e.objectRef?.name || "", namespace: e.objectRef?.namespace || "", subject: (e.impersonatedUser || e.user).username });
  const refusal = state.ended >= 3 ? (state.notes || []).join(" ").replace(/^proviso: /, "") : "";
  return html`<section>
    <h1>Audit live</h1>
    <p class="lead">Requests as the server decides them. A line opens Why.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="User" value=${q.user} onInput=${(user) => set({ user })} width="12rem" placeholder="everybody" />
      <${Field} label="Verb" value=${q.verb} onInput=${(verb) => set({ verb })} list=${verbs} width="8rem" placeholder="all" />
      <${Field} label="Resource" value=${q.resource} onInput=${(resource) => set({ resource })} list=${world.resources.map((r) => r.name)} width="14rem" placeholder="all" />
      <${Choice} label="Decision" value=${q.decision || ""} onInput=${(decision) => set({ decision })} options=${[["", "all"], ["yes", "allowed"], ["no", "refused"], ["failed", "failed later"]]} />
      ${state.live ? html`<button type="button" onClick=${stop}>Stop</button>` : html`<button class="primary">Start</button>`}
      ${state.live && html`<button class="quiet">Apply filter</button>`}
    </form>
    <p class=${"live" + (state.live ? " on" : "")} role="status"><span class="dot" aria-hidden="true"></span>${state.live ? "Live" : "Stopped"} · ${(state.seen || 0).toLocaleString("en")} ${state.seen === 1 ? "event" : "events"}${state.seen > keep ? `, the last ${keep} are kept` : ""}</p>
    <${Trouble} error=${state.error || (refusal && { message: refusal, status: 422 })} retry=${submit} />
    ${refusal && html`<p class="hint">Live events need dynamic audit on the server, the right to create auditsinks.auditregistration.k8s.io, and get on /proviso/audit/tail.</p>`}
    <div class="answer" data-ready="true">
      ${shown.length === 0 && !refusal && html`<${Empty} title="Nothing yet">Requests appear here as they are made.<//>`}
      ${shown.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Events"><table class="grid events"><caption class="sr">Events, the newest first</caption>
        <thead><tr><th scope="col">Time</th><th scope="col">Decision</th><th scope="col">User</th><th scope="col">Verb</th><th scope="col">Resource</th><th scope="col">Namespace / name</th><th scope="col">Reason</th></tr></thead>
        <tbody>${shown.map((e) => html`<tr key=${e.auditID + e.stage}>
          <td class="num">${(e.stageTimestamp || "").slice(11, 23)}</td><td><${State} is=${marks[decisionOf(e)]} word=${words[decisionOf(e)] + (e.responseStatus?.code ? " " + e.responseStatus.code : "")} /></td>
          <td>${e.user.username}${e.impersonatedUser ? " as " + e.impersonatedUser.username : ""}</td><td>${e.verb}</td><td>${what(e)}</td><td>${[e.objectRef?.namespace, e.objectRef?.name].filter(Boolean).join("/")}</td>
          <td class="reason"><button type="button" class="quiet" onClick=${() => why(e)} aria-label=${"Why " + words[decisionOf(e)] + ": " + e.user.username + " " + e.verb + " " + what(e)}>Why?</button> ${reasonOf(e)}</td></tr>`)}</tbody></table></div>`}
      <${Terminal} command=${state.command} />
    </div>
  </section>`;
}
