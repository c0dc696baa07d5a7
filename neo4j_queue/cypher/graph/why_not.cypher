// What stands under a name that no current entity has.
// parameters: keys, number (the name read as a decimal number, or null)
// rows:       one: deleted (a soft-deleted entity), decimal (one whose key is that number)
// locks:      none
RETURN EXISTS { MATCH (n:__LABEL__) WHERE n.__KEY__ IN [$keys[0], $keys[1]] } AS deleted,
  $number IS NOT NULL AND EXISTS { MATCH (n:__LABEL__ {__KEY__: $number}) } AS decimal
