"""What a schema file says, as rows that people read (M11)."""

from rowcast.schema.read import parse_schema

TEXT = '''
"""Dogs."""
type Dog @table(history: "30d") @export(name: "dogs") {
  id: ID @primaryKey
  name: String! @indexed
}
'''


def test_a_table_is_told_in_its_authors_words():
    """O8, M11: the text as it stands in the file, types and directives apart from it."""
    (row,) = parse_schema(TEXT).declared
    assert ("Dog", "dogs", "Dogs.") == (row["name"], row["path"], row["description"])
    assert ['@table(history: "30d")', '@export(name: "dogs")'] == row["directives"]
    assert {"name": "name", "type": "String!", "directives": ["@indexed"]} == row["attributes"][1]
    assert TEXT.strip() == row["text"]
