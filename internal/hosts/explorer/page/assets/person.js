import { html, go, readQuery, useAsk, useState, useEffect, State, Field, Terminal, Trouble, Notes, Busy, Empty } from "./lib.js";
import { Rows } from "./matrix.js";

// Person is what one subject may do everywhere, by role.
export function Person({ at, session }) {
  const [q, setQ] = useState({});
  const [state, ask] = useAsk("matrix");
  useEffect(() => {
    const from = readQuery();
    if (!from.subject) from.subject = session.user;
    setQ(from);
    ask({ subjects: [from.subject], namespaces: [], resources: [] });
  }, [at]);
  const submit = (e) => {
    e?.preventDefault();
    const before = location.search;
    go("person", q);
    if (location.search === before) ask({ subjects: [q.subject], namespaces: [], resources: [] });
  };
  const matrix = state.result?.answer;
  return html`<section>
    <h1>Person</h1>
    <p class="lead">What one user, group or service account may do, in every namespace and in the cluster, by role.</p>
    <form class="question" onSubmit=${submit}>
      <${Field} label="Subject" value=${q.subject} onInput=${(subject) => setQ({ subject })} width="18rem" placeholder="edgar, group:team-a" />
      <button class="primary">Ask</button>
    </form>
    <p class="hint">A user is judged without groups, which the server does not know: ask about these, too. <${State} is="yes" /> always · <${State} is="if" /> under a condition, or for some names · <${State} is="denied" /> by a deny rule</p>
    <${Busy} on=${state.busy} words="Reading the policy and deciding every cell…" /><${Trouble} error=${state.error} retry=${submit} />
    ${matrix && html`<div class="answer" data-ready=${!state.busy}>
      ${matrix.rows.length === 0 ? html`<${Empty} title="Nothing">Nothing is allowed, and nothing is denied.<//>` : html`<${Rows} matrix=${matrix} q=${q} hide=${false} />`}
      <${Notes} notes=${state.result.notes} /><${Terminal} command=${state.result.command} />
    </div>`}
  </section>`;
}
