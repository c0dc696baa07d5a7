// Some settings of the server, those that we may see.
// parameters: names
// rows:       name, value (as text)
// locks:      none
SHOW SETTINGS YIELD name, value WHERE name IN $names
RETURN name, value ORDER BY name
