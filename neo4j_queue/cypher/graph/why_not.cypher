// What stands under a key that no current entity has.
// parameters: uid, number (the key read as a number, or null)
// rows:       one: deleted (a soft-deleted entity), number (one whose key is that number)
// locks:      none
RETURN EXISTS { MATCH (n:__LABEL__ {__KEY__: $uid}) } AS deleted,
  $number IS NOT NULL AND EXISTS { MATCH (n:__LABEL__ {__KEY__: $number}) } AS number
