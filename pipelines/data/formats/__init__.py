"""What corpora lie in: archives, tables, SQuAD JSON, CoNLL columns; read one record at a time, errors name file and line."""
