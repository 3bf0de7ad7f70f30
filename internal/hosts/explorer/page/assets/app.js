import { render } from "./vendor/preact.mjs";
import { html, api, go, pathOf, useState, useEffect, Trouble, Empty } from "./lib.js";
import { WhoCan } from "./whocan.js";
import { Why } from "./why.js";
import { Matrix } from "./matrix.js";
import { Plan } from "./plan.js";
import { Audit } from "./audit.js";
import { Playground } from "./playground.js";
import { Shadow } from "./shadow.js";
import { Access } from "./access.js";
import { History } from "./history.js";
import { Lint } from "./lint.js";
import { Person } from "./person.js";

const screens = [
  { path: "who-can", name: "Who can", screen: WhoCan, icon: "M6 7a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 6 7zM1.5 13.5C1.5 10.6 3.4 9 6 9s4.5 1.6 4.5 4.5M11 2.3a2.6 2.6 0 0 1 0 4.6M12.3 9.5c1.4.6 2.2 2 2.2 4" },
  { path: "why", name: "Why", screen: Why, icon: "M8 14.5A6.5 6.5 0 1 0 8 1.500a6.500 6.500 0 0 0 0 13zM6.200 6.200c0-1 .8-1.700 1.800-1.700s1.800.7 1.800 1.700c0 1.300-1.800 1.400-1.800 2.800M8 11.400v.1" },
  { path: "person", name: "Person", screen: Person, icon: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.500 14c0-3 2.400-4.500 5.500-4.500s5.500 1.500 5.500 4.500" },
  { path: "matrix", name: "Matrix", screen: Matrix, icon: "M2 2h12v12H2zM2 6h12M2 10h12M6 2v12M10 2v12" },
  { path: "plan", name: "Plan", screen: Plan, icon: "M3 1.500h7l3 3v10H3zM10 1.500v3h3M8 7v5M5.500 9.500h5" },
  { path: "access", name: "Access", screen: Access, icon: "M5.500 7V5a2.500 2.500 0 0 1 5 0M3.500 7h9v7h-9zM8 9.500v2" },
  { path: "history", name: "History", screen: History, icon: "M2 8a6 6 0 1 0 2-4.500M2 2v3h3M8 5v3l2.500 1.500" },
  { path: "lint", name: "Lint", screen: Lint, icon: "M3 8.500l3.500 3.500L13 4.500" },
  { path: "audit", name: "Audit live", screen: Audit, icon: "M1 8h3l2-5 4 10 2-5h3" },
  { path: "playground", name: "Playground", screen: Playground, icon: "M5 2h6M6.200 2v4L2.500 12.500c-.5 1 .1 2 1.200 2h8.600c1.100 0 1.700-1 1.200-2L9.800 6V2M4.500 10h7" },
  { path: "shadow", name: "Shadow", screen: Shadow, icon: "M8 1.500a6.500 6.500 0 1 0 0 13c-2.500-1-4-3.500-4-6.500s1.500-5.500 4-6.500zM8 1.500a6.500 6.500 0 0 1 0 13" },
];

function useTheme() {
  const [theme, set] = useState(localStorage.getItem("theme") || "");
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return [theme, set];
}

function App() {
  const [at, setAt] = useState(location.pathname + location.search);
  const [session, setSession] = useState({});
  const [world, setWorld] = useState({ resources: [], namespaces: [] });
  const [theme, setTheme] = useTheme();
  useEffect(() => {
    const moved = () => setAt(location.pathname + location.search);
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const begin = () => {
    setSession({ busy: true });
    api("session").then((who) => {
      setSession({ who });
      api("resources").then(setWorld).catch(() => {});
    }, (error) => setSession({ error }));
  };
  useEffect(begin, []);
  const path = at.split("?")[0].replace(/^\/|\/$/g, "") || "who-can";
  const current = screens.find((s) => s.path === path);
  useEffect(() => {
    document.title = (current?.name || "No such screen") + " · Proviso explorer";
  }, [current]);
  const used = location.search === "?used=1";
  const Screen = current?.screen;
  const next = { "": "dark", dark: "light", light: "" }[theme];
  return html`
    <a class="skip" href="#main">Skip to the answer</a>
    <header>
      <a class="brand" href="/who-can" onClick=${(e) => { e.preventDefault(); go("who-can"); }}><img src="/assets/icon.svg" alt="" width="26" height="26" /><span>Proviso <em>explorer</em></span></a>
      <nav aria-label="Screens">${screens.map((s) => html`<a key=${s.path} href=${pathOf(s.path)} aria-current=${s === current ? "page" : undefined}
          onClick=${(e) => { if (e.ctrlKey || e.metaKey || e.shiftKey) return; e.preventDefault(); go(s.path); }}>
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${s.icon} /></svg><span class="word">${s.name}</span></a>`)}</nav>
      <div class="who">
        ${session.who && html`<dl>
          <div><dt>You are</dt><dd class="me">${session.who.user}</dd></div>
          <div><dt>Server</dt><dd>${session.who.server.replace("https://", "")}</dd></div>
          <div><dt>Mode</dt><dd>${session.who.allowApply ? "may apply" : "read only"}</dd></div>
        </dl>`}
        <button type="button" class="quiet theme" onClick=${() => setTheme(next)} >Colours: ${theme || "system"}</button>
      </div>
    </header>
    <main id="main" tabindex="-1">
      ${used && session.error ? html`<${Empty} title="This address was used already">It works once. If that was you, go back to the tab that it opened; otherwise run proviso explorer again.<//>`
      : session.error ? html`<${Trouble} error=${session.error} retry=${begin} />`
      : !current ? html`<${Empty} title="There is no such screen">The screens are above. An address of another release may have another name here.<//>`
      : session.who ? html`<${Screen} key=${current.path} at=${at} session=${session.who} world=${world} />`
      : html`<p class="busy on" role="status">Asking the server who you are…</p>`}
    </main>`;
}

render(html`<${App} />`, document.getElementById("app"));
