"""Which characters a reader does not see."""

import sys
import unicodedata

from stoker.characters import unseen

#: Marks of Unicode's category Cf that are seen, or join what is written: scripts and emoji need them.
_SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x200C, 0x200D, 0x110BD, 0x110CD}
_SEEN |= set(range(0x13430, 0x13440))


def test_unicodes_own_categories_are_covered() -> None:
    """Controls, formats, surrogates and separators of lines, of all planes."""
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert (unseen(chr(code)) is None) == (code in _SEEN), hex(code)


def test_texts_of_any_language_are_none() -> None:
    """Letters, marks, digits, punctuation and emoji."""
    for text in ("plain-1.2_3", "žluťoučký", "ភាសាខ្មែរ", "שלום", "العربية", "日本語", "👩‍🚀 ❤️"):
        assert unseen(text) is None, text
