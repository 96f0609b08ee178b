"""A few lines in each format of the official files of corpora."""

SQUAD = {
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "日本は東アジアにある。",
                    "qas": [
                        {"id": "1", "question": "どこ？", "answers": [{"text": "東アジア", "answer_start": 3}]},
                        {"id": "2", "question": "いつ？", "answers": [], "is_impossible": True},
                        {"id": "3", "question": "誰？"},
                    ],
                }
            ],
        }
    ]
}
# the columns of CoNLL, in IOB1 and IOB2
IOB1 = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
British JJ I-NP B-MISC

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""
IOB2 = "EU\tB-ORG\nrejects\tO\nGerman\tB-MISC\nBritish\tB-MISC\n\nPeter\tB-PER\nBlackburn\tI-PER\n"
