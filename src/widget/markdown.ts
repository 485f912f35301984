// What an agent wrote, as nodes that can do nothing: no HTML of its own, nothing that is loaded, and links that lead to pages and
// addresses only. What a model writes may be what somebody else has told it to.
import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

const LINK = /^(https?:\/\/|mailto:)/i;
const TAGS = "p br strong em s code pre ul ol li blockquote a hr table thead tbody tr th td".split(" ");

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true });
// An image's address can carry away what the conversation says: it stays a link, which nobody follows by looking.
markdown.disable("image");
markdown.validateLink = (url: string) => LINK.test(url.trim());
// The page's own outline isn't ours to change.
markdown.renderer.rules["heading_open"] = () => "<p><strong>";
markdown.renderer.rules["heading_close"] = () => "</strong></p>";

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

export function render(text: string): DocumentFragment {
  return purify.sanitize(markdown.render(text), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "start"],
    ALLOWED_URI_REGEXP: LINK,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}
