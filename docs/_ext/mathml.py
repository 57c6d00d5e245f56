"""Formulas as MathML, which every current browser draws by itself.

The usual renderer of Sphinx loads a script from a content delivery network whenever a page is
read; pages written this way need no network and no script.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# Browsers stretch these to the height of the whole line and set them apart from their contents,
# unless told otherwise. The brace before a table is meant to stretch.
_FENCE = re.compile(r'<mo(?: class="math\w+"| stretchy="false")?>([‖|⟨⟩{}])</mo>(?!\s*<mtable)')
_PLAIN_FENCE = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'
# Digits in a row are one number to the converter, but two arguments of a fraction to TeX.
_SHORT_FRACTION = re.compile(r"(\\[td]?frac) *(\d)(\d)")
# The thin spaces that TeX has around the name of a function, before a parenthesis excepted.
_APPLY = "<mo>&ApplyFunction;</mo>"
_THIN = '<mspace width="0.1667em"></mspace>'
_AFTER_NAME = re.compile(rf"{_APPLY}(?!\s*<mo[^>]*>[(\[{{])")
_BEFORE_NAME = re.compile(
    rf"(</(?:mi|mn|m[a-z]*su[bp]|mfrac|msqrt)>|>[)\]]</mo>)(?=\s*<mi[^>]*>\w+</mi>\s*{_APPLY})"
)


def _mathml(node: nodes.Element, *, block: bool) -> str:
    tex = _SHORT_FRACTION.sub(r"\1{\2}{\3}", node.astext())
    try:
        mathml = _FENCE.sub(_PLAIN_FENCE, latex2mathml.tex2mathml(tex, as_block=block))
    except MathError as error:
        logger.warning("cannot typeset %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"
    return _AFTER_NAME.sub(_APPLY + _THIN, _BEFORE_NAME.sub(rf"\1{_THIN}", mathml))


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    self.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula with its number, if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_mathml(node, block=True))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_math, None),
        block_renderers=(visit_math_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
