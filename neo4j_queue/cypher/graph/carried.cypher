// Does any entity carry this property?
// parameters: none
// rows:       one: carried
// locks:      none
RETURN EXISTS { MATCH (n:__LABEL__) WHERE n.__PROPERTY__ IS NOT NULL } AS carried
