INSERT INTO accounts (name) VALUES ('first');
