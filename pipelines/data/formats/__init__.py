"""Read the file formats of corpora one record at a time: archives, tables, SQuAD's JSON, CoNLL's columns."""
