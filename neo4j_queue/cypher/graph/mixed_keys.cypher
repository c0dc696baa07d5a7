// How many keys are texts and how many are whole numbers, and how many of the numbers are the name of a text as well.
// parameters: most (keys of each kind to look at)
// rows:       one: texts, numbers, twins, text (an example of a text key), twin (an example of a number that is one too)
// locks:      none
CALL () {
  MATCH (n:__LABEL__) WHERE n.__KEY__ > ''
  WITH n LIMIT $most
  RETURN count(n) AS texts, min(n.__KEY__) AS text
}
CALL () {
  MATCH (n:__LABEL__) WHERE n.__KEY__ > -Infinity
  WITH n LIMIT $most WHERE n.__KEY__ = toIntegerOrNull(n.__KEY__)
  WITH n, EXISTS { MATCH (other:__LABEL__) WHERE other.__KEY__ = toString(toInteger(n.__KEY__)) } AS twin
  RETURN count(n) AS numbers, count(CASE WHEN twin THEN 1 END) AS twins, min(CASE WHEN twin THEN toInteger(n.__KEY__) END) AS twin
}
RETURN texts, numbers, twins, text, twin
