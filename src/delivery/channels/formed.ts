// Markdown as models write it in the markup of a channel. What a channel can't say (tables, headings, images) is said in plain text.
import { Marked, type Token, type Tokens } from "marked";

/** A channel's markup: each takes what is inside, formed already, but for code, which is text as it was written. */
export type TextForm = Readonly<{
  /** Text so that none of it is taken for markup. */
  escape(text: string): string;
  bold(inside: string): string;
  italic(inside: string): string;
  struck(inside: string): string;
  code(text: string): string;
  fence(text: string, language: string): string;
  quote(inside: string): string;
  /** Null where it can't be a link there. */
  link(said: string, href: string): string | null;
  bullet: string;
}>;

const marked = new Marked({ gfm: true });

/** What can't be read as Markdown, as when marks are nested thousands deep, is said as it is. */
export function formed(markdown: string, form: TextForm): string {
  try {
    return blocks(marked.lexer(markdown), form).trimEnd();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return form.escape(markdown).trimEnd();
  }
}

const blocks = (tokens: readonly Token[], form: TextForm): string => tokens.map((token) => block(token, form)).join("");

function block(token: Token, form: TextForm): string {
  switch (token.type) {
    case "space":
      return token.raw;
    case "heading":
      return form.bold(inline(token, form)) + lineEnds(token);
    case "code": {
      const { text, lang = "" } = token as Tokens.Code;
      return form.fence(text, /^[\w+#.-]+/.exec(lang)?.[0] ?? "") + lineEnds(token);
    }
    case "blockquote":
      return form.quote(blocks((token as Tokens.Blockquote).tokens, form).trimEnd()) + lineEnds(token);
    case "list":
      return list(token as Tokens.List, form) + lineEnds(token);
    case "paragraph":
    case "text":
      return inline(token, form) + lineEnds(token);
    default:
      return form.escape(token.raw);
  }
}

function list({ ordered, start, items }: Tokens.List, form: TextForm): string {
  return items
    .map(({ tokens, task, checked }, index) => {
      const box = checked === true ? "☑ " : "☐ ";
      const mark = task ? box : ordered ? `${Number(start) + index}. ` : form.bullet;
      return mark + blocks(tokens, form).trimEnd().replaceAll("\n", "\n  ");
    })
    .join("\n");
}

/** What stands in an element; its text as it is, where nothing does. */
function inline(token: Token, form: TextForm): string {
  const { tokens, text } = token as { tokens?: readonly Token[]; text?: string };
  return tokens === undefined ? form.escape(text ?? token.raw) : tokens.map((inner) => span(inner, form)).join("");
}

function span(token: Token, form: TextForm): string {
  switch (token.type) {
    case "strong":
      return form.bold(inline(token, form));
    case "em":
      return form.italic(inline(token, form));
    case "del":
      return form.struck(inline(token, form));
    case "codespan":
      return form.code((token as Tokens.Codespan).text);
    case "link": {
      const { href } = token as Tokens.Link;
      return form.link(inline(token, form), href) ?? form.escape(token.raw);
    }
    case "br":
      return "\n";
    case "escape":
      return form.escape((token as Tokens.Escape).text);
    case "text":
      return inline(token, form);
    default:
      return form.escape(token.raw);
  }
}

const lineEnds = ({ raw }: Token): string => /\n*$/.exec(raw)?.[0] ?? "";

const quoted = (inside: string): string => `> ${inside.replaceAll("\n", "\n> ")}`;
const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const isPublic = (href: string): boolean => /^(https?|mailto|tg):/i.test(href);

/** https://core.telegram.org/bots/api#html-style: only `& < >` need care, for servers without rich messages. */
export const TELEGRAM_HTML: TextForm = {
  escape: escapeHtml,
  bold: (inside) => `<b>${inside}</b>`,
  italic: (inside) => `<i>${inside}</i>`,
  struck: (inside) => `<s>${inside}</s>`,
  code: (text) => `<code>${escapeHtml(text)}</code>`,
  fence: (text, language) =>
    language === ""
      ? `<pre>${escapeHtml(text)}</pre>`
      : `<pre><code class="language-${language}">${escapeHtml(text)}</code></pre>`,
  quote: (inside) => `<blockquote>${inside}</blockquote>`,
  link: (said, href) => (isPublic(href) ? `<a href="${escapeHtml(href).replaceAll('"', "&quot;")}">${said}</a>` : null),
  bullet: "• ",
};

/** https://faq.whatsapp.com/539178204879377: no links with a text, and nothing is escaped. */
export const WHATSAPP: TextForm = {
  escape: (text) => text,
  bold: (inside) => `*${inside}*`,
  italic: (inside) => `_${inside}_`,
  struck: (inside) => `~${inside}~`,
  code: (text) => `\`${text}\``,
  fence: (text) => `\`\`\`\n${text}\n\`\`\``,
  quote: quoted,
  link: (said, href) => (said === href ? href : `${said} (${href})`),
  bullet: "- ",
};

/** https://api.slack.com/reference/surfaces/formatting */
export const SLACK_MRKDWN: TextForm = {
  ...WHATSAPP,
  escape: escapeHtml,
  code: (text) => `\`${escapeHtml(text)}\``,
  fence: (text) => `\`\`\`\n${escapeHtml(text)}\n\`\`\``,
  link: (said, href) => (isPublic(href) ? `<${escapeHtml(href)}|${said}>` : null),
  bullet: "• ",
};
