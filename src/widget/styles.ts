// How it looks. Inside of a shadow root, so that neither the page's styles nor ours reach over; as a constructed sheet, which no CSP of
// the page forbids.

export const CSS = `
:host { all: initial; }
* { box-sizing: border-box; }
.root {
  --accent: #2451c7; --on-accent: #fff; --bg: #fff; --bg-2: #f3f5f9; --fg: #14171f; --muted: #566072; --line: #e2e6ee; --link: #1d4ed8;
  --shadow: 0 12px 40px rgb(15 23 42 / .2), 0 2px 8px rgb(15 23 42 / .1);
  position: fixed; right: 20px; bottom: 20px; z-index: 2147483000; display: flex; flex-direction: column; align-items: flex-end; gap: 14px;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: var(--fg); text-align: left;
}
@media (prefers-color-scheme: dark) {
  .root { --bg: #171a21; --bg-2: #242935; --fg: #eceff4; --muted: #a7b0c0; --line: #323847; --link: #93b4ff;
    --shadow: 0 12px 40px rgb(0 0 0 / .6); }
}
button, textarea { font: inherit; color: inherit; margin: 0; }
button { cursor: pointer; border: 0; background: none; padding: 0; }
textarea:focus-visible { outline: 2px solid var(--link); outline-offset: 0; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
[hidden] { display: none !important; }

.launcher { position: relative; width: 60px; height: 60px; border-radius: 50%; background: var(--accent); color: var(--on-accent);
  box-shadow: var(--shadow); display: grid; place-items: center; transition: transform .15s ease; }
.launcher:hover { transform: scale(1.06); }
.launcher svg { width: 28px; height: 28px; }
.badge { position: absolute; top: -4px; right: -4px; min-width: 22px; height: 22px; padding: 0 6px; border-radius: 11px;
  background: #c81e1e; color: #fff; font-size: 13px; font-weight: 600; line-height: 22px; text-align: center; box-shadow: 0 0 0 2px var(--bg); }

.panel { width: 384px; height: min(620px, calc(100vh - 120px)); max-width: calc(100vw - 40px); background: var(--bg); border-radius: 18px;
  box-shadow: var(--shadow); display: flex; flex-direction: column; overflow: hidden; animation: rise .18s ease-out; }
@keyframes rise { from { opacity: 0; transform: translateY(12px); } }
.head { display: flex; align-items: center; gap: 12px; padding: 14px 12px 14px 18px; background: var(--accent); color: var(--on-accent); }
h2 { flex: 1; margin: 0; font-size: 17px; font-weight: 650; line-height: 1.3; overflow-wrap: anywhere; }
.close { width: 36px; height: 36px; border-radius: 10px; display: grid; place-items: center; }
.close:hover { background: rgb(127 127 127 / .3); }
.close svg, .send svg { width: 20px; height: 20px; }
.head :focus-visible { outline-color: var(--on-accent); }

.log { flex: 1; overflow-y: auto; overscroll-behavior: contain; padding: 16px 16px 4px; display: flex; flex-direction: column; gap: 4px;
  scrollbar-width: thin; }
.log:focus-visible { outline-offset: -3px; }
.log > :first-child { margin-top: auto; }
.day { align-self: center; margin: 12px 0 6px; font-size: 12px; font-weight: 600; color: var(--muted); }
.earlier { align-self: center; padding: 6px 12px; border-radius: 999px; color: var(--link); font-size: 13px; font-weight: 600; }
.earlier:hover { background: var(--bg-2); }
.greeting { padding: 10px 14px; background: var(--bg-2); border-radius: 16px 16px 16px 5px; max-width: 86%; align-self: flex-start; }
.item { display: flex; flex-direction: column; max-width: 86%; align-self: flex-start; margin-top: 6px; }
.item.person { align-self: flex-end; align-items: flex-end; }
.text { padding: 9px 14px; border-radius: 16px 16px 16px 5px; background: var(--bg-2); overflow-wrap: anywhere; }
.person .text { border-radius: 16px 16px 5px 16px; background: var(--accent); color: var(--on-accent); white-space: pre-wrap; }
.unsent .text { opacity: .75; }
.meta { margin: 2px 4px 0; font-size: 12px; color: var(--muted); }
.text > :first-child { margin-top: 0; } .text > :last-child { margin-bottom: 0; }
.text p, .text ul, .text ol, .text pre, .text blockquote, .text table { margin: 8px 0; }
.text ul, .text ol { padding-left: 22px; }
.text a { color: var(--link); text-underline-offset: 2px; }
.text code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: rgb(127 127 127 / .16); border-radius: 4px; padding: 1px 4px; }
.text pre { white-space: pre-wrap; background: rgb(127 127 127 / .12); border-radius: 8px; padding: 8px 10px; }
.text pre code { background: none; padding: 0; }
.text blockquote { border-left: 3px solid var(--line); padding-left: 10px; color: var(--muted); }
.text table { border-collapse: collapse; font-size: 14px; } .text th, .text td { border: 1px solid var(--line); padding: 3px 8px; }
.text hr { border: 0; border-top: 1px solid var(--line); }
.choices { display: flex; gap: 8px; margin-top: 8px; }
.choice { padding: 8px 16px; border-radius: 10px; font-weight: 600; border: 1px solid var(--muted); }
.choice.yes { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.choice:disabled { opacity: .6; cursor: default; }
.outcome { margin: 4px 4px 0; font-size: 13px; font-weight: 600; color: var(--muted); }
.again { color: var(--link); font-weight: 600; text-decoration: underline; }

.typing { display: flex; align-items: center; gap: 4px; min-height: 26px; padding: 2px 20px; }
.dot { width: 7px; height: 7px; border-radius: 50%; background: var(--muted); animation: dot 1.2s infinite ease-in-out; }
.dot:nth-child(2) { animation-delay: .15s; } .dot:nth-child(3) { animation-delay: .3s; }
@keyframes dot { 0%, 60%, 100% { opacity: .3; transform: none; } 30% { opacity: 1; transform: translateY(-3px); } }
.notice { margin: 0 16px 8px; padding: 8px 12px; border-radius: 10px; background: #fdf0d5; color: #5c3c00; font-size: 13px; }
form { display: flex; align-items: flex-end; gap: 8px; padding: 10px 12px 12px; border-top: 1px solid var(--line); }
textarea { flex: 1; resize: none; max-height: 140px; padding: 9px 12px; border: 1px solid var(--muted); border-radius: 12px; background: var(--bg); }
textarea::placeholder { color: var(--muted); opacity: 1; }
.send { width: 42px; height: 42px; flex: none; border-radius: 12px; background: var(--accent); color: var(--on-accent); display: grid; place-items: center; }
.send:disabled { background: var(--bg-2); color: var(--muted); cursor: default; }

@media (max-width: 480px) {
  .root.open { inset: 0; gap: 0; }
  .root.open .launcher { display: none; }
  .panel { width: 100%; max-width: none; height: 100%; border-radius: 0; }
  textarea { font-size: 16px; }
}
@media (prefers-reduced-motion: reduce) { *, .panel { animation: none !important; transition: none !important; } }
@media (forced-colors: active) { .launcher, .send, .choice, .text { border: 1px solid; } }
`;
